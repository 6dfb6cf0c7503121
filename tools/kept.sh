# Sourced by scripts that make something large once and keep it between runs, whatever becomes of the working tree.
#
# kept NAME LINK FILE... makes LINK lead to the folder of NAME and of the content of FILEs (the scripts that make it),
# under ${XDG_CACHE_HOME:-~/.cache}/softcard-dev, or under build/kept where there is no home to write to. If there is
# none, or none that `is_good FOLDER` approves, `make_kept FOLDER` makes it; nobody ever sees half of it. Two at once each
# make their own, and one is thrown away. What nobody asked for in 30 days is removed.
# The variable `fresh` is 1 afterwards if LINK was made or made anew.

kept() {
    name=$1 link=$2
    shift 2
    fresh=0
    shelf=$(shelf)
    folder=$shelf/$name-$(cat "$@" | sha256sum | cut -c 1-16)
    if [ -d "$folder" ] && ! is_good "$folder"; then
        rm -rf "$folder"
    fi
    if [ ! -d "$folder" ]; then
        unfinished=$(mktemp -d "$shelf/.$name-XXXXXX")
        chmod 755 "$unfinished"
        trap 'rm -rf "$unfinished"' EXIT
        trap 'exit 1' INT TERM HUP
        make_kept "$unfinished" && is_good "$unfinished" || return 1
        mv -T "$unfinished" "$folder" 2>/dev/null || [ -d "$folder" ] || return 1
        fresh=1
    fi
    touch "$folder"
    find "$shelf" -mindepth 1 -maxdepth 1 \( -name "$name-*" -o -name ".$name-*" \) -mtime +30 -exec rm -rf {} +
    if [ "$(readlink "$link")" != "$folder" ]; then
        mkdir -p "$(dirname "$link")"
        rm -rf "$link"
        ln -s "$folder" "$link"
        fresh=1
    fi
}

# The folder that holds them all, made if need be; but never a home that is not there.
shelf() {
    cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
    case $cache in
        /*)
            if [ -d "${cache%/*}" ] && mkdir -p "$cache/softcard-dev" 2>/dev/null && [ -w "$cache/softcard-dev" ]; then
                echo "$cache/softcard-dev"
                return
            fi
            ;;
    esac
    mkdir -p build/kept
    echo "$PWD/build/kept"
}
