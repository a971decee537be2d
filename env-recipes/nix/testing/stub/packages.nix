# What the project's flake uses of nixpkgs, made of the machine's own programs. `host.json`, which the test writes, says which:
# {
#   "shell": "/path/of/bash",
#   "path": "search path of every build",
#   "variables": { "NAME": "value" },  of every build
#   "programs": { "NAME": "/path" },   those that this machine has; one that is asked for and missing does nothing, and says so
#   "libraries": { "NAME.so.N": "/path" },
#   "mirrors": { "pypi": "file:///..." }
# }
# Rust is not built here: the package is a copy of the program `ort-qualify` of the machine, and so are its variations.
{ host, system }:
let
  inherit (builtins)
    attrNames
    concatStringsSep
    filter
    head
    map
    match
    removeAttrs
    ;

  escapeShellArg = text: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] text}'";

  # As in nixpkgs, attributes are variables of the build; every command ends well or not at all.
  mkDerivation =
    args:
    let
      inputs = args.nativeBuildInputs or [ ];
      own = [
        "env"
        "meta"
        "nativeBuildInputs"
        "passthru"
      ];
      built = derivation (
        host.variables
        // removeAttrs args own
        // args.env or { }
        // {
          name = args.name or "${args.pname}-${args.version}";
          inherit system;
          builder = host.shell;
          args = [
            "-euc"
            "eval \"$buildCommand\"; exit 0"
          ];
          outputs = [ "out" ];
          PATH = concatStringsSep ":" (map (input: "${input}/bin") inputs ++ [ host.path ]);
        }
      );
    in
    built
    // args.passthru or { }
    // {
      meta = args.meta or { };
      overrideAttrs = change: mkDerivation (args // change args);
    };

  script = text: "#!${host.shell}\n${text}\n";

  program =
    name:
    mkDerivation {
      inherit name;
      text =
        if host.programs ? ${name} then
          script "exec ${host.programs.${name}} \"$@\""
        else
          script "echo \"stand-in: there is no ${name} on this machine, and nothing was checked\" >&2";
      buildCommand = ''
        mkdir -p $out/bin
        printf %s "$text" >$out/bin/${name}
        chmod +x $out/bin/${name}
      '';
    };

  libraries =
    name: pattern:
    let
      fitting = filter (library: match pattern library != null) (attrNames host.libraries);
    in
    mkDerivation {
      inherit name;
      buildCommand = ''
        mkdir -p $out/lib
        ${concatStringsSep "\n" (
          map (library: "ln -s ${host.libraries.${library}} $out/lib/${library}") fitting
        )}
      '';
    };

  # `mirror://SITE/REST`, as nixpkgs' fetchurl reads it.
  resolve =
    url:
    let
      parts = match "mirror://([^/]+)/(.*)" url;
    in
    if parts == null then url else host.mirrors.${head parts} + head (builtins.tail parts);
in
{
  lib = {
    inherit escapeShellArg;
    getLib = package: package;
    optional = condition: value: if condition then [ value ] else [ ];
    licenses = {
      mit = "MIT";
      asl20 = "Apache-2.0";
    };
  };

  stdenv.cc.cc = libraries "cc" "lib(stdc\\+\\+|gcc_s)\\..*";
  zlib = libraries "zlib" "libz\\..*";
  stdenvNoCC = {
    inherit mkDerivation;
  };
  addDriverRunpath.driverLink = "/run/opengl-driver";

  runCommand =
    name: env: command:
    mkDerivation (
      env
      // {
        inherit name;
        buildCommand = command;
      }
    );
  writeShellScript =
    name: text:
    mkDerivation {
      inherit name;
      text = script text;
      buildCommand = "printf %s \"$text\" >$out; chmod +x $out";
    };
  writeShellScriptBin =
    name: text:
    mkDerivation {
      inherit name;
      text = script text;
      buildCommand = "mkdir -p $out/bin; printf %s \"$text\" >$out/bin/${name}; chmod +x $out/bin/${name}";
    };
  mkShell =
    { packages, ... }@args:
    mkDerivation (
      removeAttrs args [ "packages" ]
      // {
        nativeBuildInputs = packages;
        buildCommand = "mkdir $out";
      }
    );

  # The fetcher that Nix itself brings.
  fetchurl =
    {
      name,
      url,
      sha256,
    }:
    derivation {
      inherit name;
      url = resolve url;
      system = "builtin";
      builder = "builtin:fetchurl";
      outputHashMode = "flat";
      outputHashAlgo = "sha256";
      outputHash = sha256;
      preferLocalBuild = true;
    };

  rustPlatform.buildRustPackage =
    args:
    mkDerivation (
      removeAttrs args [ "cargoLock" ]
      // {
        buildCommand = "mkdir -p $out/bin; cp ${host.programs.ort-qualify} $out/bin/ort-qualify";
      }
    );
}
// builtins.listToAttrs (
  map
    (name: {
      inherit name;
      value = program name;
    })
    [
      "cargo"
      "cargo-nextest"
      "clippy"
      "deadnix"
      "dpkg"
      "jq"
      "nixfmt"
      "nixfmt-tree"
      "patchelf"
      "python3"
      "rustc"
      "rustfmt"
      "unzip"
      "uv"
      "zstd"
    ]
)
