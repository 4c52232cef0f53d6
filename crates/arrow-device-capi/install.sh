#!/bin/sh
# Installs the headers, the libraries, a pkg-config file and a CMake package.
set -eu

usage() {
    cat <<END
Usage: crates/arrow-device-capi/install.sh [--prefix FOLDER] [--libdir FOLDER] [--features LIST]
                                           [--from FOLDER] [--no-strip]

Installs the headers, the shared and the static library, a pkg-config file and a CMake package; and with the devices vpi the
module that a simulator loads, in the folder arrow-device below that of the libraries.

  --prefix FOLDER   where to; /usr/local unless named
  --libdir FOLDER   the folder of the libraries below the prefix; lib unless named
  --features LIST   the devices that the library is built with beside the host and OpenCL: vulkan, webgpu, metal, cuda, rocm,
                    oneapi, hexagon, vpi, software
  --from FOLDER     take the libraries from there instead of building them
  --no-strip        leave the tables for debuggers in the libraries

DESTDIR in the environment is put before every path that is written to. STRIP, LD, OBJCOPY, NM and AR name the programs that
strip the libraries and hide the names of Rust in the static one, where the libraries are of another processor.
END
}

refuse() {
    echo "install.sh: $1; --help lists what there is" >&2
    exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
libdir=lib
features=
from=
strips=yes
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --no-strip)
        strips=no
        shift
        continue
        ;;
    --prefix=* | --libdir=* | --features=* | --from=*)
        option=${1%%=*}
        value=${1#*=}
        shift
        ;;
    --prefix | --libdir | --features | --from)
        [ $# -ge 2 ] || refuse "$1 needs a value"
        option=$1
        value=$2
        shift 2
        ;;
    *) refuse "unknown option $1" ;;
    esac
    case $option in
    --features) features=$value ;;
    *)
        case $value in
        '') refuse "$option needs a value" ;;
        -*) refuse "$option needs a value, and $value is an option" ;;
        esac
        case $option in
        --prefix) prefix=$value ;;
        --libdir) libdir=$value ;;
        --from) from=$value ;;
        esac
        ;;
    esac
done
# The files for pkg-config and CMake name the prefix, wherever they are read.
case $prefix in
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac
case $libdir in
/*) refuse "--libdir is a folder below the prefix, and $libdir is not" ;;
esac
# The package of this crate is a workspace of its own. In a checkout, the workspace has the version.
workspace=$here
if ! grep -q '^version = "' "$here/Cargo.toml"; then
    workspace=$here/../..
fi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$workspace/Cargo.toml" | head -n 1)
major=${version%%.*}

builds=no
if [ -z "$from" ]; then
    builds=yes
    (cd "$here" && cargo build --release --package=arrow-device-capi --features="$features")
    from=${CARGO_TARGET_DIR:-$workspace/target}/release
fi
# Before anything is written: headers without a library are worse than none.
for library in libarrow_device_capi.so libarrow_device_capi.a; do
    if [ ! -f "$from/$library" ]; then
        echo "install.sh: there is no $library in $from; name the folder that cargo built it in, such as target/release" >&2
        exit 1
    fi
done
# What simulators load, where it was built: cargo leaves it in the folder of dependencies.
module=
for folder in "$from" "$from/deps"; do
    if [ -z "$module" ] && [ -f "$folder/libarrow_device_vpi_module.so" ]; then
        module=$folder/libarrow_device_vpi_module.so
    fi
done
case ,$features, in
*,vpi,*)
    if [ -z "$module" ]; then
        echo "install.sh: there is no libarrow_device_vpi_module.so in $from, which devices of the type vpi need" >&2
        exit 1
    fi
    ;;
*)
    # One that an earlier build has left in the folder is of no use to this library.
    if [ "$builds" = yes ]; then
        module=
    fi
    ;;
esac

root=${DESTDIR:-}$prefix
lib=$root/$libdir
mkdir -p "$root/include/arrow_device" "$lib/pkgconfig" "$lib/cmake/arrow_device"

# A header of another crate of a checkout, of which the package of this crate has a copy.
elsewhere() {
    if [ -f "$here/include/arrow_device/$2" ]; then
        echo "$here/include/arrow_device/$2"
    else
        echo "$here/../$1/include/arrow_device/$2"
    fi
}
for header in \
    "$here/include/arrow_device/arrow_device.h" \
    "$here/include/arrow_device/driver.h" \
    "$here/include/arrow_device/schema.h" \
    "$here/include/arrow_device/share.h" \
    "$here/include/arrow_device/vulkan.h" \
    "$here/include/arrow_device/oneapi.h" \
    "$here/include/arrow_device/arrow_device.hpp" \
    "$here/include/arrow_device/result.hpp" \
    "$here/include/arrow_device/data.hpp" \
    "$here/include/arrow_device/exchange.hpp" \
    "$here/include/arrow_device/share.hpp" \
    "$here/include/arrow_device/views.hpp" \
    "$here/include/arrow_device/arrow_cpp.hpp" \
    "$(elsewhere arrow-device-abi abi.h)" \
    "$(elsewhere arrow-device-abi abi_helpers.h)" \
    "$(elsewhere arrow-device-abi dlpack_abi.h)" \
    "$(elsewhere arrow-device-check check.h)" \
    "$(elsewhere arrow-device-oneapi sycl.hpp)" \
    "$(elsewhere arrow-device-sim sim.h)" \
    "$(elsewhere arrow-device-vpi-module vpi_module.h)"; do
    cp "$header" "$root/include/arrow_device/"
done

# Makes a static library of one object, which has what the names of the shared library lead to, and no other name that a program
# could see. Two such libraries, or this one and another one of Rust, are linked into one program without a name that both have.
hide() {
    object=$(dirname "$2")/arrow_device.o
    "${NM:-nm}" -D --defined-only -P "$from/libarrow_device_capi.so" | sed 's/[@ ].*//' >"$2.names" &&
        [ -s "$2.names" ] &&
        sed 's/^/--undefined=/' "$2.names" >"$2.roots" &&
        "${LD:-ld}" -r --gc-sections "@$2.roots" -o "$object" "$1" &&
        # The code of LLVM that some sections have is of the parts, and no linker can read it for the whole.
        "${OBJCOPY:-objcopy}" --keep-global-symbols="$2.names" --remove-section=.llvmbc --remove-section=.llvmcmd "$object" &&
        "${AR:-ar}" crD "$2" "$object"
    hidden=$?
    rm -f "$2.names" "$2.roots" "$object"
    return "$hidden"
}

# A library that a program has open is replaced and not written into.
place() {
    cp "$1" "$2.new"
    if [ "$strips" = yes ] && ! "${STRIP:-strip}" "$3" "$2.new" 2>/dev/null; then
        echo "install.sh: ${STRIP:-strip} does not strip $2; STRIP in the environment names another program" >&2
        cp "$1" "$2.new"
    fi
    mv -f "$2.new" "$2"
}
place "$from/libarrow_device_capi.so" "$lib/libarrow_device.so.$version" --strip-unneeded
ln -sf "libarrow_device.so.$version" "$lib/libarrow_device.so.$major"
ln -sf "libarrow_device.so.$major" "$lib/libarrow_device.so"
static=$lib/libarrow_device.hidden
rm -f "$static"
if ! hide "$from/libarrow_device_capi.a" "$static" 2>/dev/null; then
    echo "install.sh: the names of Rust in libarrow_device.a are not hidden; LD, OBJCOPY, NM and AR in the environment name other programs" >&2
    cp "$from/libarrow_device_capi.a" "$static"
fi
place "$static" "$lib/libarrow_device.a" --strip-debug
rm -f "$static"
if [ -n "$module" ]; then
    mkdir -p "$lib/arrow-device"
    place "$module" "$lib/arrow-device/libarrow_device_vpi_module.so" --strip-unneeded
    # The name by which vvp looks for it: vvp -M FOLDER -m arrow_device.
    ln -sf libarrow_device_vpi_module.so "$lib/arrow-device/arrow_device.vpi"
fi

fill() {
    sed -e "s|@VERSION@|$version|g" -e "s|@MAJOR@|$major|g" -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" "$1" >"$2"
}
fill "$here/cmake/arrow-device.pc.in" "$lib/pkgconfig/arrow-device.pc"
fill "$here/cmake/arrow_device-config.cmake.in" "$lib/cmake/arrow_device/arrow_device-config.cmake"
fill "$here/cmake/arrow_device-config-version.cmake.in" "$lib/cmake/arrow_device/arrow_device-config-version.cmake"
echo "install.sh: arrow-device $version is in $root"
