#!/usr/bin/env bash
# Prints the folder for what a script compiles, outside the checkout, so that another clone on this machine compiles nothing. It is named by the
# digest of the script, which holds the versions.
#
#   cache.sh SCRIPT      below USHER_LAB_CACHE, or below usher/lab in the user's cache folder
set -euo pipefail
digest=$(sha256sum < "$1")
echo "${USHER_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/usher/lab}/$(basename "$(dirname "$1")")-${digest:0:12}"
