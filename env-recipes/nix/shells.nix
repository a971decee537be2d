# Development shells as data, and data as shells. Each has one stack under test: `cargo test --release` in it qualifies that one.
{
  pkgs,
  recipes,
  source,
  system,
  # Store paths of the recipes that Nix realises, by name.
  prefixes,
}:
let
  inherit (builtins)
    attrNames
    concatStringsSep
    filter
    listToAttrs
    map
    ;

  tools = [
    pkgs.cargo
    pkgs.cargo-nextest
    pkgs.clippy
    pkgs.deadnix
    pkgs.nixfmt
    pkgs.python3
    pkgs.rustc
    pkgs.rustfmt
    pkgs.uv
    # Of the checkout that the shell is used in, so that a shell opens even where the code does not compile.
    (pkgs.writeShellScriptBin "ort-qualify" ''
      exec cargo run --release --bin ort-qualify -- "$@"
    '')
  ];

  # What is only read is of use in every shell.
  read = filter (name: prefixes ? ${name}) (recipes.ofKind source system "data");

  data =
    stack:
    let
      here = filter (name: prefixes ? ${name}) [ stack ];
      environment = map (
        name: recipes.environment prefixes.${name}.resolved (recipes.treeOf prefixes.${name})
      ) here;
    in
    {
      name = "ort-qualify-${stack}";
      env = builtins.foldl' (all: one: all // one) { } environment // {
        # What `ort-qualify` and `cargo test` qualify on unless told otherwise.
        ORT_QUALIFY_RECIPE = stack;
        # Read-only stores, looked through before the user's own. An entry is found by its key, so that a shell that is older
        # than an edit of a recipe is no longer found and never taken for the new one.
        ORT_QUALIFY_PREFIXES = concatStringsSep ":" (map (name: "${prefixes.${name}}") (here ++ read));
      };
      notes =
        if here != [ ] then
          [ ]
        else
          [ "Nix cannot realise `${stack}`; `ort-qualify recipe realise ${stack}` may. Why Nix cannot:" ]
          ++ recipes.refusals source stack;
    };

  shell =
    {
      name,
      env,
      notes,
    }:
    pkgs.mkShell {
      inherit name env;
      packages = tools;
      shellHook = concatStringsSep "\n" (map (note: "echo ${pkgs.lib.escapeShellArg note} >&2") notes);
    };

  stacks = recipes.ofKind source system "stack";
  named = name: value: { inherit name value; };
  # `nix develop .#a.b` asks for b of a: a name with dots is there without them too.
  plain = builtins.replaceStrings [ "." ] [ "_" ];
  shells = listToAttrs (map (name: named name (shell (data name))) stacks);
in
listToAttrs (map (name: named (plain name) shells.${name}) (attrNames shells))
// shells
// {
  default =
    shells.cpu or (shell {
      name = "ort-qualify";
      env = { };
      notes = [ "no recipe is for ${system}: only the code can be worked on here" ];
    });
}
