#!/usr/bin/env bash
# Make sure that the system libraries Qt needs are there, on Debian and Ubuntu.
# Installs what is missing where it may (root, or sudo without a password), else prints the one command to type.
# Usage: system-libraries.sh [offscreen | tests]
#   offscreen: only what a window without a screen needs; tests: that, a compiler for the reference runtime, an ssh server
set -eu

offscreen="libEGL.so.1:libegl1 libGL.so.1:libgl1 libxkbcommon.so.0:libxkbcommon0 libfontconfig.so.1:libfontconfig1
libfreetype.so.6:libfreetype6 libglib-2.0.so.0:libglib2.0-0 libdbus-1.so.3:libdbus-1-3 libX11.so.6:libx11-6 libxcb.so.1:libxcb1"
screen="libxcb-cursor.so.0:libxcb-cursor0 libxcb-icccm.so.4:libxcb-icccm4 libxcb-image.so.0:libxcb-image0
libxcb-keysyms.so.1:libxcb-keysyms1 libxcb-randr.so.0:libxcb-randr0 libxcb-render-util.so.0:libxcb-render-util0
libxcb-shape.so.0:libxcb-shape0 libxcb-sync.so.1:libxcb-sync1 libxcb-xfixes.so.0:libxcb-xfixes0 libxcb-xkb.so.1:libxcb-xkb1
libxkbcommon-x11.so.0:libxkbcommon-x11-0 libX11-xcb.so.1:libx11-xcb1"

needed=$offscreen
[ -n "${1:-}" ] || needed="$offscreen $screen"
present=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null || true)

missing=""
for pair in $needed; do
    case "$present" in
    *"${pair%%:*} "*) ;;
    *) missing="$missing ${pair##*:}" ;;
    esac
done
# a font: without one every label is a row of boxes
if command -v fc-list >/dev/null 2>&1; then
    [ -n "$(fc-list : family 2>/dev/null | head -n 1)" ] || missing="$missing fonts-dejavu-core"
else
    missing="$missing fontconfig fonts-dejavu-core"
fi
if [ "${1:-}" = tests ] && ! command -v c++ >/dev/null 2>&1; then missing="$missing g++"; fi
sshd=$(PATH="$PATH:/sbin:/usr/sbin" command -v sshd || true)
if [ "${1:-}" = tests ]; then
    [ -n "$sshd" ] || missing="$missing openssh-server"
    for tool in ssh:openssh-client openssl:openssl; do
        command -v "${tool%%:*}" >/dev/null 2>&1 || missing="$missing ${tool##*:}"
    done
fi
python=${PYTHON:-python3}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # of this very Python: python3-venv serves only the system's own
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo 3)
    missing="$missing python$version-venv"
fi
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "Trilemma needs these system libraries (Debian names):$missing. Install them with this system's package manager." >&2
    exit 1
fi
sudo=""
if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then
        sudo="sudo"
    else
        echo "Trilemma needs system libraries that are not installed. Type this, then run make again:" >&2
        echo "  sudo apt-get update && sudo apt-get install --yes$missing" >&2
        exit 1
    fi
fi
echo "Installing system libraries:$missing"
# Ubuntu 24.04 and Debian 13 renamed some libraries; take the new name where the old one is gone
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
case "$missing" in
*openssh-server*)
    # the tests start a server of their own as this user; the package's must not open this machine to others
    $sudo mkdir -p /etc/systemd/system
    for unit in ssh.service ssh.socket; do
        [ -e "/etc/systemd/system/$unit" ] || $sudo ln -s /dev/null "/etc/systemd/system/$unit"
    done
    echo "The system's own ssh server stays off; systemctl unmask ssh.service ssh.socket lets it start"
    ;;
esac
packages=""
for name in $missing; do
    if apt-cache show "$name" >/dev/null 2>&1; then packages="$packages $name"; else packages="$packages ${name}t64"; fi
done
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -qq $packages >/dev/null
