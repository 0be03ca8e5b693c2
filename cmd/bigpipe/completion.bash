# Completion of bigpipe for bash: source <(bigpipe completion bash)

_bigpipe() {
    local line=${COMP_LINE:0:COMP_POINT} word=${COMP_LINE:0:COMP_POINT}
    local candidate keep=
    word=${word##*[[:blank:]]}
    # Bash completes after the last colon or equals sign: what stands before it is not part of the word.
    case $word in
        *[:=]*) [[ $COMP_WORDBREAKS == *:* ]] && keep=${word%"${word##*[:=]}"} ;;
    esac
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        COMPREPLY+=("${candidate#"$keep"}")
    done < <("${COMP_WORDS[0]}" __complete "$line" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=] ]]; then
        compopt -o nospace
    fi
}

complete -F _bigpipe bigpipe b
