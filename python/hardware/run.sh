#!/bin/sh
# Runs the checks on this machine's CUDA and ROCm devices, exchanges data with the libraries that its Python has, measures
# copies, and writes one report.
#
#   run.sh [REPORT.json] [--group NAME] [--only SECTION] [--minutes NUMBER] [--quick]
#
# The report is report.json beside this file, unless told otherwise. The driver has to be installed; nothing else has. PYTHON names
# another Python than python3. All of it ends within eight minutes, whatever hangs. The exit status is 0 where nothing was found.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 2
python=${PYTHON:-python3}
if command -v "$python" >/dev/null 2>&1; then
    exec "$python" "$here/hardware.py" "$@"
fi
echo "there is no $python: only the program runs, and without a time limit" >&2
case ${1:-} in
    "" | --*) exec "$here/arrow-device-gpu-hardware" "$here/report.json" "$@" ;;
    *) exec "$here/arrow-device-gpu-hardware" "$@" ;;
esac
