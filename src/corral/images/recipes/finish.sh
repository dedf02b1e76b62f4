# Runs on the new root file system, $1, when its packages are installed and before it is packed.
set -eu
cd "$1"

# What nobody reads inside. The copyright files stay: licences ask for them.
rm -rf usr/share/man usr/share/info usr/share/lintian usr/share/bug
find usr/share/locale -mindepth 1 -maxdepth 1 ! -name locale.alias -exec rm -rf {} +
find usr/share/doc -depth ! -type d ! -name copyright -delete
find usr/share/doc -depth -type d -empty -delete

# Caches, logs, and the lists of packages.
# INVARIANT: tmp is left to mmdebstrap. There lies the configuration that keeps its apt to this root: without it,
# apt would clean up the host's own lists and packages.
rm -rf var/cache/* var/log/* var/backups/* var/lib/apt/lists/* var/tmp/*

# For a root that is writable: Debian's public mirrors, and an apt that changes no user, which nobody inside may.
if [ -x usr/bin/apt-get ]; then
    suite=$(. ./etc/os-release && echo "$VERSION_CODENAME")
    mkdir -p var/cache/apt/archives/partial var/lib/apt/lists var/log/apt
    echo 'APT::Sandbox::User "root";' >etc/apt/apt.conf.d/90corral
fi

# What tells of the machine on which it was built: its name, its resolver, its mirrors (with passwords, maybe).
# Engines mount their own files over the first three, and a read-only root must have them already.
rm -f etc/hostname etc/hosts etc/resolv.conf
touch etc/hostname etc/hosts etc/resolv.conf
rm -rf etc/apt/sources.list etc/apt/sources.list.d/* etc/apt/auth.conf etc/apt/auth.conf.d
if [ -n "${suite:-}" ]; then
    for place in "debian $suite $suite-updates" "debian-security $suite-security"; do
        printf 'Types: deb\nURIs: https://deb.debian.org/%s\nSuites: %s\nComponents: main\n' \
            "${place%% *}" "${place#* }"
        printf 'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n'
    done >etc/apt/sources.list.d/debian.sources
fi
rm -f etc/machine-id var/lib/dbus/machine-id
touch etc/machine-id
rm -rf root/.[!.]* etc/ssh/ssh_host_* etc/dpkg/dpkg.cfg.d/99mmdebstrap

# No program changes its user or group.
find . -xdev -type f -perm /6000 -exec chmod a-s {} +

# Where corral and the engines mount something.
mkdir -p workspace home proc sys dev run tmp var/tmp
chmod 755 workspace home
chmod 1777 tmp var/tmp

# What is in it, for `corral image inspect`, also after packages were removed by hand.
mkdir -p usr/share/corral
dpkg-query --admindir="$1/var/lib/dpkg" --show --showformat '${Package} ${Version} ${Architecture}\n' \
    >usr/share/corral/manifest
