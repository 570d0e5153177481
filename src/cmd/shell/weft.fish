# SPDX-License-Identifier: MIT
#
# Completion of weft for fish. The program knows what fits: `weft --complete WORD...` prints it.

function __weft_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    type -q $words[1]; or return
    set -l before (string match -r '^--[^=]*=|^[^/=]*=' -- "$word")
    set -l path (string replace -- "$before" '' "$word")
    for line in (command $words[1] --complete $words[2..-1] "$word" 2>/dev/null)
        switch $line
            case :files
                printf "$before%s\n" (__fish_complete_path "$path")
            case :folders
                printf "$before%s\n" (__fish_complete_directories "$path" '')
            case '*'
                echo $line
        end
    end
end

complete -c weft -f -a '(__weft_complete)'
