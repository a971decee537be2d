# A recipe as a store path: a read-only store of ort-qualify with one entry, laid out as the Rust side lays out its own
# (`NAME-KEY16/tree` and `NAME-KEY16/prefix.json`), so that it is found, checked and used like any other.
{ pkgs, resolved }:
let
  inherit (resolved) recipe;

  fetch =
    artifact:
    pkgs.fetchurl {
      # Not the URL's last part: that may hold a `%2B`, which no store path may, nor a `~`.
      name = builtins.replaceStrings [ "~" ] [ "-" ] artifact.filename;
      inherit (artifact) url sha256;
    };

  # Where the driver's own libraries are on NixOS: they belong to the machine, as the driver does.
  driver = pkgs.lib.optional (recipe ? provider && needsDriver recipe.provider.name) (
    pkgs.addDriverRunpath.driverLink + "/lib"
  );
  needsDriver =
    provider:
    builtins.elem provider [
      "cuda"
      "migraphx"
    ];

  # What the recipe points at must be there: found out here, not when it is loaded.
  pointedAt =
    builtins.filter (path: path != null) [
      (recipe.library.path or null)
      (recipe.provider.plugin or null)
      (recipe.tool.path or null)
      (recipe.data.path or null)
    ]
    ++ recipe.library_dirs or [ ];
in
pkgs.stdenvNoCC.mkDerivation {
  name = "ort-qualify-${resolved.entryName}";
  nativeBuildInputs = [
    pkgs.dpkg
    pkgs.jq
    pkgs.patchelf
    pkgs.unzip
    pkgs.zstd
  ];
  inherit pointedAt driver;
  inherit (resolved) entryName;
  recipeName = resolved.name;
  record = builtins.toJSON resolved.record;
  artifacts = map (artifact: artifact.name) resolved.artifacts;
  packages = map fetch resolved.artifacts;
  # What every Linux desktop has, and what wheels therefore leave out.
  runtime = [
    "${pkgs.lib.getLib pkgs.stdenv.cc.cc}/lib"
    "${pkgs.lib.getLib pkgs.zlib}/lib"
  ];
  buildCommand = builtins.readFile ./prefix.sh;
  passthru = { inherit resolved; };
}
