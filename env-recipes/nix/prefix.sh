# Builds the entry of prefix.nix: unpacks the wheels, gives their libraries an rpath, records every file.
# Given: out, entryName, recipeName, record (JSON), wheels, runtime, driver, pointedAt.
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

files() { (cd "$1" && find . -type f | sort); }

# Moves the files of one folder into another below the tree. Two artifacts may bring the same file, but not two versions of it.
merge() {
    local from=$1 to=$2 file
    mkdir -p "$to"
    while IFS= read -r file; do
        cmp -s "$from/$file" "$to/$file" || refuse "$wheel and an artifact before it both bring ${to#"$tree"}/${file#./}, and differ in it"
        rm "$from/$file"
    done < <(comm -12 <(files "$from") <(files "$to"))
    cp -rl "$from/." "$to/"
    rm -r "$from"
}

for wheel in $wheels; do
    unzip -q "$wheel" -d "$unpacked"
    odd=$(find "$unpacked" ! -type f ! -type d -print -quit)
    [ -z "$odd" ] || refuse "$wheel brings ${odd#"$unpacked/"}, which is neither a file nor a directory"
    for data in "$unpacked"/*.data; do
        [ -d "$data" ] || continue
        for scheme in "$data"/*; do
            case ${scheme##*/} in
                purelib | platlib | data) merge "$scheme" "$tree" ;;
                scripts) chmod -R 755 "$scheme" && merge "$scheme" "$tree/bin" ;;
                *) refuse "$wheel brings ${scheme#"$unpacked/"}, and where that goes is not known here" ;;
            esac
        done
        rmdir "$data"
    done
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

# `prefix.json`, in the order of the paths' components. No name has a newline: no zip that unzip takes would.
(
    cd "$tree"
    find . -type f -printf '%P\n' | tr / '\1' | sort | tr '\1' / >"$out/paths"
    tr '\n' '\0' <"$out/paths" | xargs -0 sha256sum -- | cut -c 1-64 >"$out/hashes"
    tr '\n' '\0' <"$out/paths" | xargs -0 stat --format '%s %a' -- >"$out/sizes"
    paste -d ' ' "$out/hashes" "$out/sizes" "$out/paths" >"$out/files"
)
jq -R -n --argjson record "$record" --arg installer "nix (rpath added to $patched libraries)" '
    def entry: capture("^(?<sha256>[0-9a-f]{64}) (?<size>[0-9]+) (?<mode>[0-7]+) (?<path>.+)$")
        | { path, size: (.size | tonumber), sha256, executable: (.mode | test("[1357]..$")) };
    $record + { installer: $installer, files: [inputs | entry] }' "$out/files" >"$entry/prefix.json"
rm "$out"/{paths,hashes,sizes,files}
