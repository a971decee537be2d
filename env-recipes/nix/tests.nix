# Tests of recipes.nix as `{ expr, expected }`: run by `nix flake check`, or one by one by `nix eval .#libTests`.
{ recipes }:
let
  hash = builtins.concatStringsSep "" (builtins.genList (_: "ab") 32);

  onnxruntime = {
    name = "onnxruntime";
    version = "1.0";
    index = "pypi";
    python = "3.12";
    platform = "x86_64-manylinux_2_28";
  };
  plugin = onnxruntime // {
    name = "plugin";
  };

  locked = {
    name = "onnxruntime";
    version = "1.0";
    index = "pypi";
    filename = "onnxruntime-1.0+x-py3-none-any.whl";
    path = "packages/aa/bb/onnxruntime-1.0+x-py3-none-any.whl";
    size = 7;
    sha256 = hash;
    hash_source = "computed here";
    reason = null;
  };

  base = {
    kind = "stack";
    description = "a base";
    platform = "x86_64-linux";
    artifact = [ onnxruntime ];
    library = {
      path = "a/lib.so";
      version = "1.0";
    };
    provider.name = "cpu";
    env.HERE = "\${PREFIX}/x:\${PREFIX}/y";
  };

  # A source of one recipe `r`, changed, with a lock of one file, changed.
  with' = recipe: file: {
    tables.r = base // recipe;
    lock = {
      format = 1;
      artifacts = [ (locked // file) ];
    };
  };
  plain = with' { } { };
  refused = recipe: file: recipes.refusals (with' recipe file) "r";
  disagree = recipe: file: recipes.disagreements (with' recipe file);
  fails = value: !(builtins.tryEval (builtins.deepSeq value value)).success;
  hasKey = source: name: (recipes.resolve source name).key;

  # `low` extends `high`.
  extended =
    low:
    plain
    // {
      tables = {
        high = base;
        low = {
          extends = "high";
        }
        // low;
      };
    };
in
{
  "a sound recipe and lock have no fault" = {
    expr = disagree { } { } ++ refused { } { };
    expected = [ ];
  };
  "the url is below nixpkgs' mirror, and the name keeps its plus" = {
    expr = builtins.map (a: [
      a.url
      a.filename
    ]) (recipes.resolve plain "r").artifacts;
    expected = [
      [
        "mirror://pypi/../aa/bb/onnxruntime-1.0+x-py3-none-any.whl"
        "onnxruntime-1.0+x-py3-none-any.whl"
      ]
    ];
  };
  "a package of debian is below its mirror, and a vendor's file on the vendor's host" = {
    expr =
      let
        at =
          index: path:
          (builtins.head
            (recipes.resolve (with' { artifact = [ (onnxruntime // { inherit index; }) ]; } {
              inherit index path;
              filename = builtins.baseNameOf path;
            }) "r").artifacts
          ).url;
      in
      [
        (at "debian" "pool/main/o/o_1.0+a_amd64.deb")
        (at "https://vendor.example/simple" "whl/o-1.0+a-py3-none-any.whl")
      ];
    expected = [
      "mirror://debian/pool/main/o/o_1.0+a_amd64.deb"
      "https://vendor.example/whl/o-1.0%2Ba-py3-none-any.whl"
    ];
  };
  "the first overlay is an artifact, and its libraries are searched first" = {
    expr =
      let
        overlay = artifact: library_dir: { inherit artifact library_dir; };
        source = with' {
          artifact = [ plugin ];
          library_dirs = [ "lib" ];
          overlay = [
            (overlay onnxruntime "usr/lib")
            (overlay (onnxruntime // { name = "older"; }) "lib64")
          ];
        } { };
        file = name: locked // { inherit name; };
        resolved = recipes.resolve (
          source
          // {
            lock.artifacts = map file [
              "onnxruntime"
              "plugin"
              "older"
            ];
          }
        ) "r";
      in
      [
        (map (a: a.name) resolved.artifacts)
        resolved.recipe.library_dirs
        (resolved.recipe ? overlay)
        (recipes.disagreements source)
      ];
    expected = [
      [
        "plugin"
        "onnxruntime"
      ]
      [
        "usr/lib"
        "lib"
      ]
      false
      [
        "recipe `r`: artifact `plugin 1.0` of `pypi` is not in lock.json"
        "recipe `r`: artifact `older 1.0` of `pypi` is not in lock.json"
      ]
    ];
  };
  "a Python environment is left to uv" = {
    expr = refused { kind = "python"; } { };
    expected = [
      "recipe `r`: its Python environment is made by uv: `ort-qualify recipe realise r` does it"
    ];
  };
  "the variable is filled in wherever it stands" = {
    expr = recipes.environment (recipes.resolve plain "r") "/tree";
    expected.HERE = "/tree/x:/tree/y";
  };
  "an unknown variable is a fault by field" = {
    expr = refused { env.A = "\${PREFIX}/\${HOME}"; } { };
    expected = [
      "recipe `r`: field `env.A`: `\${HOME}` in `\${PREFIX}/\${HOME}`: only \${PREFIX} is known"
    ];
  };
  "the key does not follow the description" = {
    expr = hasKey (with' { description = "other words"; } { }) "r" == hasKey plain "r";
    expected = true;
  };
  "the key does not follow empty tables, which are as good as none" = {
    expr =
      hasKey (with' {
        session = { };
        library_dirs = [ ];
        provider = {
          name = "cpu";
          options = { };
        };
      } { }) "r" == hasKey plain "r";
    expected = true;
  };
  "the key follows settings and pins" = {
    expr = builtins.any (source: hasKey source "r" == hasKey plain "r") [
      (with' { env.HERE = "x"; } { })
      (with' { session.a = "1"; } { })
      (with' { } { size = 8; })
      (with' { } { sha256 = builtins.replaceStrings [ "a" ] [ "c" ] hash; })
    ];
    expected = false;
  };
  "stacks are selected by system" = {
    expr = builtins.map (system: recipes.ofKind plain system "stack") [
      "x86_64-linux"
      "aarch64-linux"
    ];
    expected = [
      [ "r" ]
      [ ]
    ];
  };
  "kinds are kept apart" = {
    expr = recipes.ofKind plain "x86_64-linux" "data";
    expected = [ ];
  };

  "extending merges tables by key and artifacts by name" = {
    expr =
      let
        recipe = recipes.recipe (extended {
          artifact = [
            plugin
            (onnxruntime // { version = "2.0"; })
          ];
          provider.options.a = "b";
          library_dirs = [ "lib" ];
        }) "low";
      in
      [
        (builtins.map (a: "${a.name} ${a.version}") recipe.artifact)
        recipe.provider
        recipe.library_dirs
        (recipe ? extends)
      ];
    expected = [
      [
        "onnxruntime 2.0"
        "plugin 1.0"
      ]
      {
        name = "cpu";
        options.a = "b";
      }
      [ "lib" ]
      false
    ];
  };
  "extending may take more than one step" = {
    expr =
      let
        source = extended { };
        longer = source // {
          tables = source.tables // {
            lowest = {
              extends = "low";
              description = "the last";
            };
          };
        };
        recipe = recipes.recipe longer "lowest";
      in
      [
        recipe.description
        recipe.library.path
      ];
    expected = [
      "the last"
      "a/lib.so"
    ];
  };
  "an extension of nothing is a fault" = {
    expr = recipes.faults (extended { extends = "hihg"; }) "low";
    expected = [ "recipe `low`: field `extends`: there is no recipe `hihg`" ];
  };
  "an extension must be a name" = {
    expr = recipes.faults (extended { extends = [ "high" ]; }) "low";
    expected = [ "recipe `low`: field `extends` must be the name of a recipe" ];
  };
  "a circle of extensions is a fault" = {
    expr = recipes.faults (extended { extends = "low"; }) "low";
    expected = [ "recipe `low`: field `extends`: `low` extends `low`: a circle" ];
  };

  "an unknown recipe is told with those there are" = {
    expr = recipes.faults plain "q";
    expected = [ "there is no recipe `q`; known are: r" ];
  };
  "a missing field is told with recipe and artifact" = {
    expr = refused { artifact = [ (removeAttrs onnxruntime [ "version" ]) ]; } { };
    expected = [ "recipe `r`: artifact `onnxruntime ?` of `pypi`: field `version` must be a text" ];
  };
  "an artifact that is not locked is told" = {
    expr = refused { } { version = "1.1"; };
    expected = [
      "recipe `r`: artifact `onnxruntime 1.0` of `pypi` is not in lock.json; `ort-qualify recipe lock` puts it there"
    ];
  };
  "an unrecorded hash is no fault of the lock, but nothing that Nix can fetch" = {
    expr =
      let
        file = {
          sha256 = null;
          hash_source = "unrecorded";
          reason = "the vendor publishes none";
        };
      in
      [
        (disagree { } file)
        (refused { } file)
      ];
    expected = [
      [ ]
      [
        "recipe `r`: artifact `onnxruntime 1.0` of `pypi`: field `sha256` is null in lock.json: the vendor publishes none"
      ]
    ];
  };
  "an index without a mirror list is told" = {
    expr = refused { artifact = [ (onnxruntime // { index = "vendor"; }) ]; } { index = "vendor"; };
    expected = [
      "recipe `r`: artifact `onnxruntime 1.0` of `vendor`: field `index`: `vendor` is not known to Nix here"
    ];
  };
  "a file that cannot be unpacked is told" = {
    expr = refused { } { filename = "onnxruntime-1.0.tar.gz"; };
    expected = [
      "recipe `r`: artifact `onnxruntime 1.0` of `pypi`: field `filename`: `onnxruntime-1.0.tar.gz` is none of .whl, .deb and .conda, which are unpacked here"
    ];
  };
  "a path outside the file store is told" = {
    expr = refused { } { path = "elsewhere/onnxruntime-1.0+x-py3-none-any.whl"; };
    expected = [
      "recipe `r`: artifact `onnxruntime 1.0` of `pypi`: field `path` must start with `packages/` in lock.json"
    ];
  };
  "what is refused cannot be resolved, nor what is unknown be had" = {
    expr = [
      (fails (recipes.resolve (with' { } { sha256 = null; }) "r"))
      (fails (recipes.recipe plain "q"))
      (fails (recipes.resolve plain "r").key)
    ];
    expected = [
      true
      true
      false
    ];
  };

  "lock and recipes disagree in both directions" = {
    expr = disagree { } { version = "1.1"; };
    expected = [
      "recipe `r`: artifact `onnxruntime 1.0` of `pypi` is not in lock.json"
      "lock.json: artifact `onnxruntime 1.1` of `pypi` is wanted by no recipe"
    ];
  };
  "a file of another name is not the wanted one" = {
    expr = refused { } { name = "onnxruntime-gpu"; };
    expected = refused { } { version = "1.1"; };
  };
  "another format of the lock is told" = {
    expr = recipes.disagreements (
      plain
      // {
        lock = plain.lock // {
          format = 2;
        };
      }
    );
    expected = [ "lock.json: field `format` must be 1" ];
  };
  "an unsound lock entry is told by field" = {
    expr = disagree { } {
      sha256 = "99E1";
      filename = "other.whl";
    };
    expected = [
      "lock.json: artifact `onnxruntime 1.0` of `pypi`: field `sha256` must be 64 lower-case hex digits or null"
      "lock.json: artifact `onnxruntime 1.0` of `pypi`: field `filename` must be the last part of `path`"
    ];
  };
  "a hash that is missing without a reason is told" = {
    expr = disagree { } { sha256 = null; };
    expected = [
      "lock.json: artifact `onnxruntime 1.0` of `pypi`: field `reason` must say why sha256 is null"
    ];
  };
}
