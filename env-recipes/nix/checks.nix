# What `nix flake check` holds the project against.
{
  pkgs,
  recipes,
  source,
  # The project as the package is built from it, and its Nix files.
  rustSource,
  nixSource,
  package,
  prefixes,
}:
let
  inherit (builtins)
    attrNames
    concatStringsSep
    filter
    listToAttrs
    map
    toJSON
    ;

  check =
    name: tools: command:
    pkgs.runCommand "ort-qualify-check-${name}" { nativeBuildInputs = tools; } "${command}\ntouch $out";

  # Found out when evaluated: nothing is built for a failure to be seen.
  holds =
    name: failures:
    if failures == [ ] then
      check name [ ] ""
    else
      throw "check `${name}`:\n${concatStringsSep "\n" failures}";

  tests = import ./tests.nix { inherit recipes; };
  failed = filter (name: tests.${name}.expr != tests.${name}.expected) (attrNames tests);
  told =
    name:
    "test `${name}`: expected ${toJSON tests.${name}.expected}, found ${toJSON tests.${name}.expr}";

  # Loaded where nothing is but the prefix and what it was told to find: not on an accelerator, which a build has not.
  stacks = filter (name: prefixes.${name}.resolved.recipe ? library) (attrNames prefixes);
  loads =
    name:
    let
      prefix = prefixes.${name};
      inherit (prefix.resolved.recipe) library;
    in
    {
      name = "ort-loads-${name}";
      value = check "ort-loads-${name}" [ package pkgs.python3 ] ''
        ort-qualify --root ${rustSource} --store ${prefix} --offline recipe verify ${name}
        python3 ${./loads.py} ${recipes.treeOf prefix}/${library.path} ${library.version}
      '';
    };
in
{
  inherit package;
  clippy = package.overrideAttrs (old: {
    pname = "ort-qualify-clippy";
    nativeBuildInputs = old.nativeBuildInputs or [ ] ++ [ pkgs.clippy ];
    buildPhase = "cargo clippy --offline --workspace --all-targets -- -D warnings";
    doCheck = false;
    installPhase = "touch $out";
  });
  fmt = check "fmt" [ pkgs.cargo pkgs.rustfmt ] "cd ${rustSource} && cargo fmt --all --check";
  nixfmt = check "nixfmt" [ pkgs.nixfmt ] "find ${nixSource} -name '*.nix' -exec nixfmt --check {} +";
  deadnix = check "deadnix" [ pkgs.deadnix ] "deadnix --fail ${nixSource}";
  lib = holds "lib" (map told failed);
  lock = holds "lock" (recipes.disagreements source);
}
// listToAttrs (map loads stacks)
