# The `ort-qualify` program.
{ pkgs, src }:
let
  manifest = builtins.fromTOML (builtins.readFile ../../Cargo.toml);
in
pkgs.rustPlatform.buildRustPackage {
  pname = "ort-qualify";
  inherit (manifest.workspace.package) version;
  inherit src;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [
    "--bin"
    "ort-qualify"
  ];
  # The others fetch wheels.
  cargoTestFlags = [
    "--workspace"
    "--lib"
  ];
  meta = {
    description = "Does this ONNX model run right, wholly on the accelerator, on exactly these pinned libraries?";
    mainProgram = "ort-qualify";
    license = with pkgs.lib.licenses; [
      mit
      asl20
    ];
  };
}
