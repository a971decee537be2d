# Development shells as data, and data as shells. Each has one stack under test: `cargo test --release` in it qualifies that one.
{
  pkgs,
  recipes,
  source,
  system,
  # Store paths of the recipes that Nix realises, by name; and those that a stack wants, as a search path.
  prefixes,
  stores,
}:
let
  inherit (builtins)
    attrNames
    concatStringsSep
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

  data =
    stack:
    let
      prefix = prefixes.${stack} or null;
    in
    {
      name = "ort-qualify-${stack}";
      env =
        (if prefix == null then { } else recipes.environment prefix.resolved (recipes.treeOf prefix))
        // {
          # What `ort-qualify` and `cargo test` qualify on unless told otherwise.
          ORT_QUALIFY_RECIPE = stack;
          ORT_QUALIFY_PREFIXES = stores stack;
        };
      notes =
        if prefix != null then
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
