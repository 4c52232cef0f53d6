#!/bin/sh
# Installs the header, the libraries, a pkg-config file and a CMake package.
#
#   crates/arrow-device-capi/install.sh --prefix /usr/local [--libdir lib] [--features LIST] [--from FOLDER]
#
# Without --from the libraries are built first, with the features named. DESTDIR is put before every path written to.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
libdir=lib
features=
from=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) prefix=$2 ;;
    --libdir) libdir=$2 ;;
    --features) features=$2 ;;
    --from) from=$2 ;;
    *)
        echo "install.sh: unknown option $1" >&2
        exit 2
        ;;
    esac
    shift 2
done
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
major=${version%%.*}

if [ -z "$from" ]; then
    (cd "$here" && cargo build --release --package=arrow-device-capi --features="$features")
    from=${CARGO_TARGET_DIR:-$here/../../target}/release
fi

root=${DESTDIR:-}$prefix
lib=$root/$libdir
mkdir -p "$root/include/arrow_device" "$lib/pkgconfig" "$lib/cmake/arrow_device"

cp "$here/include/arrow_device/arrow_device.h" "$root/include/arrow_device/"
cp "$here/include/arrow_device/driver.h" "$root/include/arrow_device/"
cp "$here/../arrow-device-abi/include/arrow_device/abi.h" "$root/include/arrow_device/"
cp "$here/../arrow-device-abi/include/arrow_device/dlpack_abi.h" "$root/include/arrow_device/"

cp "$from/libarrow_device_capi.so" "$lib/libarrow_device.so.$version"
ln -sf "libarrow_device.so.$version" "$lib/libarrow_device.so.$major"
ln -sf "libarrow_device.so.$major" "$lib/libarrow_device.so"
cp "$from/libarrow_device_capi.a" "$lib/libarrow_device.a"

fill() {
    sed -e "s|@VERSION@|$version|g" -e "s|@MAJOR@|$major|g" -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" "$1" >"$2"
}
fill "$here/cmake/arrow-device.pc.in" "$lib/pkgconfig/arrow-device.pc"
fill "$here/cmake/arrow_device-config.cmake.in" "$lib/cmake/arrow_device/arrow_device-config.cmake"
fill "$here/cmake/arrow_device-config-version.cmake.in" "$lib/cmake/arrow_device/arrow_device-config-version.cmake"
echo "install.sh: arrow-device $version is in $root"
