# lib.sh: what the scripts share.  Sourced, not run.
#
# Everything that the scripts start lives under $RUN: ./tmp of the checkout,
# or, where PostgreSQL's user may not enter the checkout, a directory below
# /tmp that ./tmp/run points to.  Nothing is installed into the system but
# Debian packages: the extension goes into a private copy of PostgreSQL.
#
# Settings (environment):
#   PG_VERSION   PostgreSQL major version; default: an installed one, else Debian's
#   PG_CONFIG    pg_config of some other PostgreSQL, instead of PG_VERSION
#   REDIS        redis or valkey; default: what is installed, redis first
#   NO_COLOR     plain output

set -euo pipefail
umask 022
export LC_ALL=C.UTF-8
unset PGHOST PGPORT PGUSER PGDATABASE PGPASSWORD PGSERVICE PGOPTIONS CDPATH

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
ME=script/$(basename "$0")

# ---- output ----

if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' BLUE=$'\e[36m' OFF=$'\e[0m'
else
    BOLD='' DIM='' RED='' GREEN='' BLUE='' OFF=''
fi

title() { printf '\n%s%s%s\n' "$BOLD" "$*" "$OFF"; }
say() { printf '%s\n' "$*"; }
note() { printf '%s%s%s\n' "$DIM" "$*" "$OFF"; }
die() {
    printf '%s%s: %s%s\n' "$RED" "$ME" "$*" "$OFF" >&2
    exit 1
}

commit() { git -C "$TOP" describe --always --dirty 2>/dev/null || echo "no commit"; }

# The comment at the head of the calling script, for --help.
usage() {
    sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"
    exit "${1:-0}"
}

# ---- packages ----

is_root() { [[ $(id -u) == 0 ]]; }

as_root() {
    if is_root; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "root is needed for: $*"
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=600 \
        -o Dpkg::Use-Pty=0 "$@" >>"$TOP/tmp/packages.log" 2>&1
}

has_package() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# Install those packages that are missing.  While they are unpacked a policy
# keeps Debian from starting the services that come with them.
need_packages() {
    local package missing=() policy=/usr/sbin/policy-rc.d

    command -v dpkg-query >/dev/null || return 0    # not Debian: what is missing will say so
    for package; do
        has_package "$package" || missing+=("$package")
    done
    ((${#missing[@]})) || return 0

    is_root || command -v sudo >/dev/null || die "packages are missing: ${missing[*]}"
    note "installing ${missing[*]}"
    mkdir -p "$TOP/tmp"
    if [[ -e $policy ]]; then
        install_packages "${missing[@]}"
    else
        (
            trap 'as_root rm -f $policy' EXIT
            printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
            as_root chmod 755 $policy
            install_packages "${missing[@]}"
        )
    fi
}

install_packages() {
    apt install --no-install-recommends "$@" ||
        { apt update && apt install --no-install-recommends "$@"; } || {
        tail -n 5 "$TOP/tmp/packages.log" >&2
        die "could not install $* (tmp/packages.log)"
    }
}

# ---- PostgreSQL and Redis: which ones ----

# Sets PG_CONFIG, PG_VERSION, PG_BIN; installs what building and running needs.
need_postgres() {
    local dir

    if [[ -z ${PG_CONFIG:-} ]]; then
        if [[ -z ${PG_VERSION:-} ]]; then
            for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -n); do
                [[ -x $dir/postgres && -e $dir/../lib/pgxs/src/makefiles/pgxs.mk ]] || continue
                PG_VERSION=$(basename "$(dirname "$dir")")
            done
        fi
        if [[ -z ${PG_VERSION:-} ]] && command -v apt-cache >/dev/null; then
            apt-cache show postgresql >/dev/null 2>&1 || { mkdir -p "$TOP/tmp" && apt update; } || :
            PG_VERSION=$(apt-cache depends postgresql 2>/dev/null |
                sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -n 1)
        fi
        [[ -n ${PG_VERSION:-} ]] || die "no PostgreSQL found: set PG_CONFIG"
        need_packages make gcc libc6-dev libhiredis-dev liblz4-dev libzstd-dev \
            "postgresql-$PG_VERSION" "postgresql-server-dev-$PG_VERSION"
        PG_CONFIG=/usr/lib/postgresql/$PG_VERSION/bin/pg_config
    else
        need_packages make gcc libc6-dev libhiredis-dev liblz4-dev libzstd-dev
        PG_VERSION=$("$PG_CONFIG" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
    fi
    [[ -f $("$PG_CONFIG" --pgxs) ]] || die "$PG_CONFIG --pgxs: no such file"
    PG_BIN=$("$PG_CONFIG" --bindir)
    export PG_CONFIG PG_VERSION
    export PATH=$PG_BIN:$PATH
    set_run
}

# Sets REDIS_SERVER and REDIS_CLI.
need_redis() {
    local try kind kinds=${REDIS:-redis valkey}

    for try in 1 2; do
        for kind in $kinds; do
            REDIS_SERVER=$kind-server REDIS_CLI=$kind-cli
            if command -v $REDIS_SERVER >/dev/null && command -v $REDIS_CLI >/dev/null; then
                set_run
                return
            fi
        done
        ((try == 1)) || break
        if [[ -n ${REDIS:-} ]]; then
            need_packages "$REDIS-server"
        elif apt-cache show redis-server >/dev/null 2>&1 || ! apt-cache show valkey-server >/dev/null 2>&1; then
            need_packages redis-server
        else
            need_packages valkey-server
        fi
    done
    die "neither redis-server nor valkey-server is installed"
}

# ---- whom PostgreSQL runs as, and where ----

PG_USER=
if is_root; then
    PG_USER=postgres
    id postgres >/dev/null 2>&1 || PG_USER=nobody
fi

# Run a command as the user of the PostgreSQL server, which is never root.
as_pg() {
    if [[ -n $PG_USER ]]; then
        setpriv --reuid="$PG_USER" --regid="$(id -g "$PG_USER")" --init-groups \
            env -C / HOME=/tmp "$@"
    else
        "$@"
    fi
}

# Sets RUN.
set_run() {
    if is_root; then        # the packages may have made the user just now
        PG_USER=postgres
        id postgres >/dev/null 2>&1 || PG_USER=nobody
    fi
    mkdir -p "$TOP/tmp"
    RUN=$TOP/tmp
    if ! as_pg test -x "$RUN"; then
        RUN=/tmp/mosql_fdw-$(id -u)-$(cksum <<<"$TOP" | cut -d' ' -f1)
        mkdir -p -m 755 "$RUN"
        [[ -O $RUN && ! -L $RUN ]] || die "$RUN belongs to somebody else"
        ln -sfn "$RUN" "$TOP/tmp/run"
    fi
    export RUN
}

# ---- building ----

# build NAME [make arguments]: into tmp/build/NAME, then, unless NAME ends in
# "-check", into the private PostgreSQL $RUN/root/NAME.  Sets ROOT.
build() {
    local name=$1 dir=$TOP/tmp/build/$1 d
    shift
    mkdir -p "$dir"
    exec 8>"$dir.lock"
    flock 8
    if ! make -s -j"$(nproc)" -C "$dir" -f "$TOP/Makefile" "$@" >"$dir.log" 2>&1; then
        cat "$dir.log" >&2
        die "the build failed"
    fi
    if [[ $name != *-check ]]; then
        ROOT=$RUN/root/$name
        private_postgres
        # not under the feet of servers that run
        if [[ ! -e $ROOT/installed || $(find "$dir" "$TOP/sql" "$TOP"/*.control '(' -name '*.so' -o -name '*.sql' -o -name '*.control' ')' -newer "$ROOT/installed" -print -quit) ]]; then
            make -s -C "$dir" -f "$TOP/Makefile" "$@" install DESTDIR="$ROOT" >"$dir.log" 2>&1 || {
                cat "$dir.log" >&2
                die "the installation failed"
            }
            for d in bindir sharedir pkglibdir; do
                chmod -R go+rX "$ROOT$("$PG_CONFIG" --$d)" 2>/dev/null || :
            done
            touch "$ROOT/installed"
        fi
    fi
    exec 8>&-
}

# A PostgreSQL of our own in $ROOT: copies of its programs (they find the rest
# relative to themselves), links to everything else.  So checkouts do not
# disturb each other, nor the system.
private_postgres() {
    local d stamp

    stamp="$("$PG_CONFIG" --version) $(stat -c %Y "$PG_BIN/postgres")"
    [[ -e $ROOT/stamp && $(<"$ROOT/stamp") == "$stamp" ]] && return
    rm -rf "$ROOT"
    mkdir -p "$ROOT$PG_BIN"
    cp -L "$PG_BIN"/* "$ROOT$PG_BIN"
    for d in "$("$PG_CONFIG" --sharedir)" "$("$PG_CONFIG" --pkglibdir)"; do
        mkdir -p "$ROOT$d"
        cp -rs "$(realpath "$d")"/. "$ROOT$d"
    done
    rm -f "$ROOT$("$PG_CONFIG" --pkglibdir)/mosql_fdw.so" \
        "$ROOT$("$PG_CONFIG" --sharedir)"/extension/mosql_fdw*
    echo "$stamp" >"$ROOT/stamp"
}

# ---- ports and processes ----

# free_port BASE COUNT [BUS]: the first port from BASE on with COUNT free ones
# in a row; with BUS also those 10000 above.  What is free now may be taken a
# moment later: callers try again.
free_port() {
    perl -MSocket -e '
        my ($base, $count, $bus) = @ARGV;
        sub is_free {
            my ($port) = @_;
            return 0 if $port > 65535;
            socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
            return bind($s, sockaddr_in($port, INADDR_LOOPBACK));
        }
        PORT: for (my $p = $base; $p < $base + 4000; $p += $count) {
            for my $i (0 .. $count - 1) {
                next PORT unless is_free($p + $i) && (!$bus || is_free($p + $i + 10000));
            }
            print "$p\n";
            exit 0;
        }
        exit 1;' "$1" "$2" "${3:-}"
}

# Is the process in pid file $1 alive, and is it the one that works in $2?
alive() {
    local pid
    pid=$(head -n 1 "$1" 2>/dev/null) && [[ -n $pid ]] &&
        [[ $(as_owner_readlink "/proc/$pid/cwd") == "$(realpath "$2" 2>/dev/null)" ]]
}

as_owner_readlink() { readlink "$1" 2>/dev/null || as_pg readlink "$1" 2>/dev/null || :; }

# wait_until SECONDS COMMAND...: false when it does not come true in time.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.05
    done
}
