#compdef bigpipe b
# Completion of bigpipe for zsh: source <(bigpipe completion zsh), after compinit

_bigpipe() {
    local line candidate help
    local -a texts shown open
    while IFS=$'\t' read -r candidate help; do
        texts+=("$candidate")
        shown+=("$candidate${help:+  -- $help}")
    done < <("${(Q)words[1]}" __complete "${(j: :)words[1,CURRENT-1]} ${QIPREFIX}${PREFIX}" 2>/dev/null)
    (( ${#texts} )) || return 1
    if (( ${#texts} == 1 )) && [[ ${texts[1]} == *[/=] ]]; then
        open=(-S '')
    fi
    compadd -Q -l -d shown "${open[@]}" -a texts
}

compdef _bigpipe bigpipe b
