{
  description = "Does this ONNX model run right, wholly on the accelerator, on exactly these pinned libraries?";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      recipes = import ./env-recipes/nix/recipes.nix;
      source = recipes.read ./env-recipes;

      # The program runs on more machines than there are recipes for.
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      eachSystem = builtins.listToAttrs (
        map (system: {
          name = system;
          value = forSystem system;
        }) systems
      );

      # What a build of the program reads; nothing else makes it anew.
      rustSource = builtins.path {
        name = "ort-qualify-source";
        path = ./.;
        filter =
          path: _:
          let
            below = builtins.substring (builtins.stringLength (toString ./.) + 1) (-1) path;
            top = builtins.head (builtins.match "([^/]+).*" below);
          in
          below != "env-recipes/nix"
          && builtins.elem top [
            "Cargo.lock"
            "Cargo.toml"
            "clippy.toml"
            "env-recipes"
            "golden"
            "harness"
            "rustfmt.toml"
          ];
      };

      forSystem =
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
          package = import ./env-recipes/nix/package.nix {
            inherit pkgs;
            src = rustSource;
          };
          prefix =
            name:
            import ./env-recipes/nix/prefix.nix {
              inherit pkgs;
              resolved = recipes.resolve source name;
            };
          names = builtins.concatMap (recipes.ofKind source system) [
            "stack"
            "data"
          ];
          realisable = builtins.partition (name: recipes.refusals source name == [ ]) names;
          named =
            names:
            builtins.listToAttrs (
              map (name: {
                inherit name;
                value = prefix name;
              }) names
            );
          prefixes = named realisable.right;
          # Read-only stores for ort-qualify, looked through before the user's own: a stack's, and what is only read by any.
          # An entry is found by its key, so that one made before a recipe was edited is never taken for the new one.
          stores =
            stack:
            let
              wanted = builtins.filter (name: prefixes ? ${name}) (
                [ stack ] ++ recipes.ofKind source system "data"
              );
            in
            builtins.concatStringsSep ":" (map (name: "${prefixes.${name}}") wanted);
        in
        {
          packages = prefixes // {
            default = package;
            ort-qualify = package;
          };
          # Where `nix build .#NAME` looks next, and nothing else: it says why Nix cannot realise a recipe.
          legacyPackages = named realisable.wrong;
          devShells = import ./env-recipes/nix/shells.nix {
            inherit
              pkgs
              prefixes
              recipes
              source
              stores
              system
              ;
          };
          apps.default = {
            type = "app";
            program = toString (
              pkgs.writeShellScript "ort-qualify-run" ''
                export ORT_QUALIFY_PREFIXES=''${ORT_QUALIFY_PREFIXES:-${stores "cpu"}}
                exec ${package}/bin/ort-qualify run "$@"
              ''
            );
            meta.description = "`ort-qualify run`: the qualification matrix of the checkout that it is started in";
          };
          checks = import ./env-recipes/nix/checks.nix {
            inherit
              package
              pkgs
              prefixes
              recipes
              rustSource
              source
              ;
            nixSource = self;
          };
          formatter = pkgs.nixfmt-tree;
        };

      output = name: builtins.mapAttrs (_: outputs: outputs.${name}) eachSystem;
    in
    {
      packages = output "packages";
      legacyPackages = output "legacyPackages";
      devShells = output "devShells";
      apps = output "apps";
      checks = output "checks";
      formatter = output "formatter";
      libTests = import ./env-recipes/nix/tests.nix { inherit recipes; };
    };
}
