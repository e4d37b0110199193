# Sourced by the scripts beside it: a running server, and an environment of Python with packages.

# need_python FOLDER REQUIREMENTS: an environment with those packages, or a word about why there is none, and the end.
need_python() {
    local folder=$1 requirements=$2
    if [[ ! -x $folder/bin/python ]]; then
        command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 0; }
        python3 -m venv "$folder" || { echo "skipped: python3 makes no environments here"; exit 0; }
    fi
    if ! "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 -r "$requirements"; then
        echo "skipped: the packages of $requirements cannot be had from here"
        exit 0
    fi
}

# start_server KAURI ARGUMENT...: starts `kauri serve` at a free port; its address is in $url, its process in $server.
start_server() {
    local kauri=$1
    shift
    words=$(mktemp)
    "$kauri" serve --port 0 "$@" 2>"$words" &
    server=$!
    trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -f "$words"' EXIT
    for _ in $(seq 100); do
        url=$(sed -n 's/^listening on //p' "$words")
        [[ -n $url ]] && return
        kill -0 "$server" 2>/dev/null || { cat "$words"; exit 1; }
        sleep 0.1
    done
    echo "it does not listen"
    exit 1
}

# stop_server: tells it to end, and waits until it has.
stop_server() {
    kill -TERM "$server"
    wait "$server" || { echo "the server ended with an error:"; cat "$words"; exit 1; }
    trap 'rm -f "$words"' EXIT
    echo "the server ended as it was told to"
}
