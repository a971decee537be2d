#!/usr/bin/env bash
# Brings Nix up below one directory, from Debian packages that are only unpacked: nothing of the machine is changed, no daemon,
# no /nix. Takes some 15 seconds. Needs a Debian-like machine with apt and a way to its archive.
#
#   private-nix.sh DEST        then   . DEST/env   (puts nix, patchelf, unzip and jq on the PATH, and the store below DEST)
#
# Exit code 69 where the machine cannot have it: no apt, no Debian archive, or no network.
set -euo pipefail

suite=trixie
packages=(nix-bin patchelf unzip jq)
dest=$(mkdir -p "$1" && cd "$1" && pwd)

cannot() {
    echo "private-nix.sh: $*" >&2
    exit 69
}
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "only for x86-64 Linux"
for tool in apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || cannot "there is no $tool on this machine"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || cannot "there is no $keyring: not a Debian machine"

# The archive that this machine's own apt uses. Its lists and caches are left alone: apt is given folders of its own.
archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | grep debian | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }' || true)
[ -n "$archive" ] || cannot "apt knows no Debian archive; has \`apt-get update\` ever been run?"
apt=$dest/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts" "$dest/root" "$dest/bin"
: >"$apt/status"
cat >"$apt/debian.sources" <<END
Types: deb
URIs: $archive
Suites: $suite
Components: main
Signed-By: $keyring
END
cat >"$apt/apt.conf" <<END
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/debian.sources";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::preferencesparts "$apt/parts";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Languages "none";
END
apt-get -qq -c "$apt/apt.conf" update || cannot "the archive's list of $suite cannot be fetched"
apt-get -qq -y -c "$apt/apt.conf" --download-only install "${packages[@]}" || cannot "${packages[*]} cannot be fetched"
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$dest/root"
done

# Programs of another release run on that release's own C library: loader and search path are written into them.
libraries=$dest/root/usr/lib/x86_64-linux-gnu
loader=$libraries/ld-linux-x86-64.so.2
patch() {
    "$loader" --library-path "$libraries" "$dest/root/usr/bin/patchelf" --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$@"
}
for program in nix patchelf unzip jq; do
    patch --output "$dest/bin/$program" "$dest/root/usr/bin/$program"
    chmod 755 "$dest/bin/$program"
done
for name in nix-store nix-hash nix-instantiate nix-build; do
    ln -sf nix "$dest/bin/$name"
done

# A store, state and settings of its own. No sandbox: it wants rights that a container does not give. The host's /etc never goes
# into sandbox-paths: Nix has emptied real files there.
mkdir -p "$dest"/{store,var/nix,var/log,etc,cache,config,state,data}
cat >"$dest/env" <<END
export PATH=$dest/bin:\$PATH
export NIX_STORE_DIR=$dest/store NIX_STATE_DIR=$dest/var/nix NIX_LOG_DIR=$dest/var/log NIX_CONF_DIR=$dest/etc NIX_REMOTE=local
export NIX_DATA_DIR=$dest/root/usr/share
export NIX_USER_CONF_FILES=/dev/null NIX_PATH=
export NIX_CACHE_HOME=$dest/cache NIX_CONFIG_HOME=$dest/config NIX_STATE_HOME=$dest/state NIX_DATA_HOME=$dest/data
export NIX_CONFIG='
experimental-features = nix-command flakes
sandbox = false
build-users-group =
substituters =
flake-registry =
warn-dirty = false
max-jobs = 2
'
END
. "$dest/env"
nix --version
