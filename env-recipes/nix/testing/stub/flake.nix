{
  description = "A stand-in for nixpkgs over the programs of one machine, for tests where no nixpkgs can be had.";

  outputs =
    _:
    let
      host = builtins.fromJSON (builtins.readFile ./host.json);
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      legacyPackages = builtins.listToAttrs (
        map (system: {
          name = system;
          value = import ./packages.nix { inherit host system; };
        }) systems
      );
    };
}
