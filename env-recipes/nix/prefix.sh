# Builds the entry of prefix.nix: unpacks the packages, gives their libraries an rpath, records every file.
# Given: out, entryName, recipeName, record (JSON), artifacts and packages (names and files, in the same order), runtime, driver,
# pointedAt.
set -euo pipefail
export LC_ALL=C

refuse() {
    echo "recipe \`$recipeName\`: $*" >&2
    exit 1
}

entry=$out/$entryName
tree=$entry/tree
# Beside the tree, so that files are moved and never copied: some wheels are larger than a build directory in memory.
unpacked=$out/unpacked
mkdir -p "$tree"

files() { (cd "$1" && find . ! -type d | sort); }

# The same link, or plain files of the same content?
same() {
    [ "$(readlink "$1")" = "$(readlink "$2")" ] && { [ -h "$1" ] || cmp -s "$1" "$2"; }
}

# Moves the files of one folder into another below the tree. Two artifacts may bring the same file, but not two versions of it.
declare -A owner=()
merge() {
    local from=$1 to=$2 file path
    mkdir -p "$to"
    while IFS= read -r file; do
        path=$to/${file#./}
        path=${path#"$tree/"}
        if [ -n "${owner[$path]:-}" ]; then
            same "$from/$file" "$to/$file" || refuse "${owner[$path]} and $artifact both bring $path, and differ in it"
            rm "$from/$file"
        else
            owner[$path]=$artifact
        fi
    done < <(files "$from")
    cp -rlP "$from/." "$to/"
    rm -r "$from"
}

unpack_wheel() {
    unzip -q "$1" -d "$unpacked"
    local data scheme odd
    odd=$(find "$unpacked" ! -type f ! -type d -print -quit)
    [ -z "$odd" ] || refuse "$1 brings ${odd#"$unpacked/"}, which is neither a file nor a directory"
    for data in "$unpacked"/*.data; do
        [ -d "$data" ] || continue
        for scheme in "$data"/*; do
            case ${scheme##*/} in
                purelib | platlib | data) merge "$scheme" "$tree" ;;
                scripts) chmod -R 755 "$scheme" && merge "$scheme" "$tree/bin" ;;
                *) refuse "$1 brings ${scheme#"$unpacked/"}, and where that goes is not known here" ;;
            esac
        done
        rmdir "$data"
    done
}

# Links in packages stay below the tree, by their names alone.
links_stay_inside() {
    local link target
    while IFS= read -r link; do
        target=$(realpath --canonicalize-missing --no-symlinks "${link%/*}/$(readlink "$link")")
        case $target in
            "$unpacked" | "$unpacked"/*) ;;
            *) refuse "$1 brings ${link#"$unpacked/"}, a link that leads out of it" ;;
        esac
    done < <(find "$unpacked" -type l)
}

names=($artifacts)
for package in $packages; do
    artifact=${names[0]}
    names=("${names[@]:1}")
    case $package in
        *.whl) unpack_wheel "$package" ;;
        *.deb) dpkg-deb --extract "$package" "$unpacked" && links_stay_inside "$package" ;;
        *.conda)
            mkdir "$unpacked"
            unzip -q -p "$package" 'pkg-*.tar.zst' | zstd -q -d | tar -x -C "$unpacked"
            links_stay_inside "$package"
            ;;
        *) refuse "$package is of no kind that is unpacked here" ;;
    esac
    merge "$unpacked" "$tree"
done

for path in $pointedAt; do
    [ -e "$tree/$path" ] || refuse "it points at $path, which none of its artifacts brings"
done

# A library that needs what the machine is expected to have finds it by an rpath behind its own: programs of the host, started
# from the same shell, then see nothing of it, as they would with LD_LIBRARY_PATH. What the tree brings itself is left to the recipe.
declare -A own=()
while IFS= read -r name; do
    own[$name]=yes
done < <(find "$tree" -name '*.so*' -printf '%f\n')
patched=0
while IFS= read -r file; do
    [ "$(head -c 4 "$file" | tr -d '\0')" = $'\x7fELF' ] || continue
    # Static programs have nothing to find, and nowhere to write where.
    needed=$(patchelf --print-needed "$file" 2>/dev/null) || continue
    wanted=()
    for dir in $runtime; do
        for name in $needed; do
            if [ -e "$dir/$name" ] && [ -z "${own[$name]:-}" ]; then
                wanted+=("$dir")
                break
            fi
        done
    done
    wanted+=($driver)
    [ ${#wanted[@]} -gt 0 ] || continue
    chmod u+w "$file"
    patchelf --add-rpath "$(IFS=:; echo "${wanted[*]}")" "$file"
    patched=$((patched + 1))
done < <(find "$tree" -type f \( -name '*.so' -o -name '*.so.*' -o -perm -u+x \))

# `prefix.json`, in the order of the paths' components. No name has a newline: no zip that unzip takes would. A link's size and
# hash are those of its target's name.
(
    cd "$tree"
    find . -type f -printf '%P\n' >"$out/paths"
    tr '\n' '\0' <"$out/paths" | xargs -0 -r sha256sum -- | cut -c 1-64 >"$out/hashes"
    tr '\n' '\0' <"$out/paths" | xargs -0 -r stat --format '%s %a' -- >"$out/sizes"
    paste -d ' ' "$out/hashes" "$out/sizes" "$out/paths"
    find . -type l -printf '%P\n' | while IFS= read -r path; do
        target=$(readlink "$path")
        printf '%s %s 644 %s\n' "$(printf %s "$target" | sha256sum | cut -c 1-64)" "${#target}" "$path"
    done
) >"$out/files"
for path in "${!owner[@]}"; do
    printf '%s\t%s\n' "${owner[$path]}" "$path"
done >"$out/owners"
(cd "$tree" && find . -type l -printf '%P\t%l\n') >"$out/links"
jq -R -n --argjson record "$record" --arg installer "nix (rpath added to $patched libraries)" \
    --rawfile owners "$out/owners" --rawfile links "$out/links" '
    def columns: split("\n") | map(select(. != "") | split("\t"));
    ($owners | columns | map({ key: .[1], value: .[0] }) | from_entries) as $owner
    | ($links | columns | map({ key: .[0], value: .[1] }) | from_entries) as $link
    | def entry: capture("^(?<sha256>[0-9a-f]{64}) (?<size>[0-9]+) (?<mode>[0-7]+) (?<path>.+)$")
        | { path, size: (.size | tonumber), sha256, executable: (.mode | test("[1357]..$")) }
        + (if $link[.path] then { link: $link[.path] } else {} end)
        + (if $owner[.path] then { artifact: $owner[.path] } else {} end);
    $record + { installer: $installer, files: ([inputs | entry] | sort_by(.path | split("/"))) }' "$out/files" >"$entry/prefix.json"
rm "$out"/{paths,hashes,sizes,files,owners,links}
