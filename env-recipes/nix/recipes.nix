# What the recipes and the lock say: pure functions over `../*.toml` and `../lock.json`, builtins only.
#
# A source is `{ tables, lock }`: the table of every recipe file by name, and the lock. What is wrong is first a list of sentences
# (`faults`, `refusals`, `disagreements`), each naming recipe, artifact and field, and only then a throw: so it can be tested, and
# a recipe that Nix cannot realise does not take the others with it.
let
  inherit (builtins)
    any
    attrNames
    concatLists
    concatStringsSep
    elem
    elemAt
    filter
    hashString
    head
    isAttrs
    isList
    isString
    listToAttrs
    map
    match
    removeAttrs
    replaceStrings
    stringLength
    substring
    ;

  # Format of the store entry, which is part of a recipe's key: `FORMAT` of the Rust side's prefix.
  entryFormat = 1;
  lockFormat = 1;

  # How a path below an index's file store becomes a URL of nixpkgs' mirror lists: there, `pypi` starts one folder too low.
  mirrors = {
    pypi = {
      below = "packages/";
      mirror = "mirror://pypi/../";
    };
    debian = {
      below = "pool/";
      mirror = "mirror://debian/pool/";
    };
  };

  # Scheme and host of an index that is named by its address, as a list of none or one.
  hostOf =
    index:
    let
      found = match "(https?://[^/]+).*" index;
    in
    if found == null then [ ] else found;

  isUnpacked = filename: match ".*\\.(whl|deb|conda)" filename != null;

  prefixVariable = "\${PREFIX}";

  orNothing = condition: sentence: if condition then [ ] else [ sentence ];

  # Lays `over` over `base`: tables key by key, artifacts by name, everything else is replaced.
  merge =
    base: over:
    base
    // builtins.mapAttrs (
      key: above:
      let
        below = base.${key} or null;
      in
      if isAttrs below && isAttrs above then
        merge below above
      else if key == "artifact" && isList below && isList above then
        mergeArtifacts below above
      else
        above
    ) over;

  mergeArtifacts =
    below: above:
    let
      same = a: b: a.name or null == b.name or null;
      replaced = map (b: head (filter (same b) above ++ [ b ])) below;
      added = filter (a: !any (same a) below) above;
    in
    replaced ++ added;

  # From the recipe up to the one that extends nothing; `fault` says why there is no such end.
  lineage =
    source: line:
    let
      here = elemAt line (builtins.length line - 1);
      parent = source.tables.${here}.extends or null;
      told = fault: {
        inherit line fault;
      };
    in
    if parent == null then
      told null
    else if !isString parent then
      told "recipe `${here}`: field `extends` must be the name of a recipe"
    else if !(source.tables ? ${parent}) then
      told "recipe `${here}`: field `extends`: there is no recipe `${parent}`"
    else if elem parent line then
      told "recipe `${here}`: field `extends`: `${concatStringsSep "` extends `" line}` extends `${parent}`: a circle"
    else
      lineage source (line ++ [ parent ]);

  label = wanted: "`${wanted.name or "?"} ${wanted.version or "?"}` of `${wanted.index or "?"}`";

  isFile =
    wanted: locked:
    wanted.index == locked.index && wanted.name == locked.name && wanted.version == locked.version;

  # The lock's entry of a wanted artifact, as a list of none or one.
  found =
    source: wanted:
    if wanted ? index && wanted ? name && wanted ? version then
      filter (isFile wanted) source.lock.artifacts
    else
      [ ];

  # What is missing or odd in the text of a recipe, as far as Nix reads it; the Rust side checks the rest.
  faults =
    source: name:
    let
      inherit (lineage source [ name ]) fault;
      recipe = table source name;
      needs =
        where: value: field:
        orNothing (isString (value.${field} or null)) "${where}: field `${field}` must be a text";
      ofArtifact =
        wanted:
        concatLists (
          map (needs "recipe `${name}`: artifact ${label wanted}" wanted) [
            "index"
            "name"
            "version"
          ]
        );
      ofVariable =
        field: value:
        let
          left = match ".*\\$\\{([^}]*)}.*" (replaceStrings [ prefixVariable ] [ "" ] value);
        in
        orNothing (left == null)
          "recipe `${name}`: field `${field}`: `\${${head left}}` in `${value}`: only ${prefixVariable} is known";
      variables =
        concatLists (map (v: ofVariable "env.${v}" recipe.env.${v}) (attrNames (recipe.env or { })))
        ++ concatLists (
          map (v: ofVariable "append.${v}" recipe.append.${v}.value) (attrNames (recipe.append or { }))
        );
    in
    if !(source.tables ? ${name}) then
      [ "there is no recipe `${name}`; known are: ${concatStringsSep ", " (attrNames source.tables)}" ]
    else if fault != null then
      [ fault ]
    else
      concatLists (
        map (needs "recipe `${name}`" recipe) [
          "kind"
          "description"
          "platform"
        ]
      )
      ++ concatLists (map ofArtifact (wants recipe))
      ++ variables;

  # The recipe with all that it extends. Only for recipes whose lineage has an end.
  table =
    source: name:
    let
      line = (lineage source [ name ]).line;
      own = n: removeAttrs source.tables.${n} [ "extends" ];
    in
    builtins.foldl' (over: parent: merge (own parent) over) (own name) (builtins.tail line);

  # Everything that a recipe may install.
  wants = recipe: recipe.artifact or [ ] ++ map (o: o.artifact or { }) (recipe.overlay or [ ]);

  # The recipe with its first overlay among the artifacts: the best, which the glibc of nixpkgs loads.
  overlaid =
    recipe:
    if recipe.overlay or [ ] == [ ] then
      recipe
    else
      let
        overlay = head recipe.overlay;
      in
      removeAttrs recipe [ "overlay" ]
      // {
        artifact = recipe.artifact ++ [ overlay.artifact ];
        library_dirs = [ overlay.library_dir ] ++ recipe.library_dirs or [ ];
      };

  # Why Nix cannot realise a recipe. Faults apart, these are no errors: the Rust side may still be able to.
  refusals =
    source: name:
    let
      wrong = faults source name;
      ofArtifact =
        wanted:
        let
          at = "recipe `${name}`: artifact ${label wanted}";
          locked = head (found source wanted);
          mirror = mirrors.${locked.index} or null;
        in
        if found source wanted == [ ] then
          [ "${at} is not in lock.json; `ort-qualify recipe lock` puts it there" ]
        else if locked.sha256 == null then
          [ "${at}: field `sha256` is null in lock.json: ${toString (locked.reason or null)}" ]
        else if !isUnpacked locked.filename then
          [
            "${at}: field `filename`: `${locked.filename}` is none of .whl, .deb and .conda, which are unpacked here"
          ]
        else if hostOf locked.index != [ ] then
          [ ]
        else if mirror == null then
          [ "${at}: field `index`: `${locked.index}` is not known to Nix here" ]
        else
          orNothing (
            substring 0 (stringLength mirror.below) locked.path == mirror.below
          ) "${at}: field `path` must start with `${mirror.below}` in lock.json";
      recipe = overlaid (table source name);
      kind = recipe.kind;
    in
    if wrong != [ ] then
      wrong
    else if kind == "python" || recipe ? container then
      [
        "recipe `${name}`: its Python environment is made by uv: `ort-qualify recipe realise ${name}` does it"
      ]
    else if recipe.artifact or [ ] == [ ] then
      [ "recipe `${name}`: field `artifact`: there is nothing to install" ]
    else
      concatLists (map ofArtifact recipe.artifact);

  demand = problems: value: if problems == [ ] then value else throw (concatStringsSep "\n" problems);

  # A value without its empty lists and tables: what the Rust side leaves out when it writes a recipe.
  dense =
    value:
    if isAttrs value then
      let
        kept = filter (
          name:
          !elem (dense value.${name}) [
            { }
            [ ]
          ]
        ) (attrNames value);
      in
      listToAttrs (
        map (name: {
          inherit name;
          value = dense value.${name};
        }) kept
      )
    else if isList value then
      map dense value
    else
      value;

  pinned = locked: {
    inherit (locked)
      filename
      index
      name
      path
      sha256
      size
      version
      ;
  };
in
rec {
  inherit merge refusals faults;

  # Reads every recipe and the lock of a folder.
  read =
    folder:
    let
      stem = file: match "(.+)\\.toml" file;
      files = filter (file: stem file != null) (attrNames (builtins.readDir folder));
    in
    {
      tables = listToAttrs (
        map (file: {
          name = head (stem file);
          value = builtins.fromTOML (builtins.readFile (folder + "/${file}"));
        }) files
      );
      lock = builtins.fromJSON (builtins.readFile (folder + "/lock.json"));
    };

  # The recipe with all that it extends.
  recipe = source: name: demand (faults source name) (table source name);

  # Names of the recipes of a kind for a system.
  ofKind =
    source: system: kind:
    let
      fits =
        name:
        faults source name == [ ]
        && (table source name).kind == kind
        && (table source name).platform == system;
    in
    filter fits (attrNames source.tables);

  # The recipe and the files that its artifacts are; key and entry name are those of the Rust side.
  resolve =
    source: name:
    let
      table' = overlaid (recipe source name);
      files = map (wanted: head (found source wanted)) table'.artifact;
      # Of an index that is named by its address, the Rust side writes down where the file is.
      pin = file: pinned file // (if hostOf file.index == [ ] then { } else { url = url file; });
      identity = {
        format = entryFormat;
        recipe = dense (removeAttrs table' [ "description" ]) // {
          inherit name;
        };
        artifacts = map pin files;
      };
      key = hashString "sha256" (builtins.toJSON identity);
    in
    demand (refusals source name) {
      inherit name key;
      recipe = table';
      entryName = "${name}-${substring 0 16 key}";
      artifacts = map (file: pinned file // { url = url file; }) files;
      record = {
        format = entryFormat;
        recipe = name;
        inherit key;
        inherit (identity) artifacts;
      };
    };

  # Where nixpkgs finds a locked file.
  url =
    locked:
    let
      inherit (mirrors.${locked.index}) below mirror;
      host = hostOf locked.index;
    in
    if host != [ ] then
      "${head host}/${replaceStrings [ "+" ] [ "%2B" ] locked.path}"
    else
      mirror + substring (stringLength below) (-1) locked.path;

  # Replaces the variable for the root of the installed files, the only one there is.
  expand = tree: replaceStrings [ prefixVariable ] [ (toString tree) ];

  # `[env]` with the root of the installed files filled in. Neither `[append]` nor `library_dirs`: those are for the worker alone,
  # which adds them itself. A shell that had them would hand them to every program started from it.
  environment = resolved: tree: builtins.mapAttrs (_: expand tree) (resolved.recipe.env or { });

  # Root of the installed files in the store path that prefix.nix makes.
  treeOf = prefix: "${prefix}/${prefix.resolved.entryName}/tree";

  # Where recipes and lock do not agree, as sentences.
  disagreements =
    source:
    let
      names = attrNames source.tables;
      sound = filter (name: faults source name == [ ]) names;
      wanted = concatLists (map (name: wants (table source name)) sound);
      missing =
        name:
        let
          lacks = w: found source w == [ ];
        in
        map (w: "recipe `${name}`: artifact ${label w} is not in lock.json") (
          filter lacks (wants (table source name))
        );
      unused = filter (locked: !any (w: isFile w locked) wanted) source.lock.artifacts;
      unsound =
        locked:
        let
          at = "lock.json: artifact ${label locked}";
          hex = locked.sha256 != null && match "[0-9a-f]{64}" locked.sha256 != null;
        in
        orNothing (
          locked.sha256 == null || hex
        ) "${at}: field `sha256` must be 64 lower-case hex digits or null"
        ++ orNothing (
          locked.sha256 != null || isString (locked.reason or null)
        ) "${at}: field `reason` must say why sha256 is null"
        ++ orNothing (
          if locked.path == null then
            locked.filename == null && locked.sha256 == null
          else
            locked.filename == baseNameOf locked.path
        ) "${at}: field `filename` must be the last part of `path`";
    in
    orNothing (
      source.lock.format == lockFormat
    ) "lock.json: field `format` must be ${toString lockFormat}"
    ++ concatLists (map (faults source) names)
    ++ concatLists (map missing sound)
    ++ map (locked: "lock.json: artifact ${label locked} is wanted by no recipe") unused
    ++ concatLists (map unsound source.lock.artifacts);
}
