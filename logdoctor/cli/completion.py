"""Scripts that complete the command line in a shell, made of the commands and of the names that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from logdoctor.cli.surface import FILES, PROGRAMS, Argument, Command, Option, Words

Maker = Callable[[Sequence[Command], Sequence[Option], Words], Iterator[str]]
_SORTS = ("rules", "names", "facts", "engines")


def script(shell: str, every: Sequence[Command], own: Sequence[Option], known: Words) -> str:
    """Write the script for a shell."""
    return "\n".join(SHELLS[shell](every, own, known))


def _bash(every: Sequence[Command], own: Sequence[Option], known: Words) -> Iterator[str]:
    yield "# bash completion for logdoctor. Put it where bash finds it when it is needed:"
    yield "#   logdoctor completion bash > ~/.local/share/bash-completion/completions/logdoctor"
    yield "_logdoctor() {"
    yield "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i"
    yield "  COMPREPLY=()"
    yield "  # --format=json comes as three words"
    yield "  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi"
    for sort in _SORTS:
        yield f"  local {sort}='{' '.join(known.of(sort))}'"
    yield "  if ((COMP_CWORD == 1)); then"
    names = " ".join([*(one.name for one in every), *_names(own)])
    yield f"    mapfile -t COMPREPLY < <(compgen -W '{names}' -- \"$cur\")"
    yield "    return"
    yield "  fi"
    yield "  case ${COMP_WORDS[1]} in"
    for command in every:
        yield f"    {command.name})"
        valued = [option for option in command.options if not option.flag]
        programs = [one for one in command.arguments if PROGRAMS in one.values]
        if programs:
            yield "      for ((i = 2; i < COMP_CWORD; i++)); do"
            yield "        [[ ${COMP_WORDS[i]} == -- ]] || continue"
            yield '        if ((i == COMP_CWORD - 1)); then mapfile -t COMPREPLY < <(compgen -c -- "$cur"); fi'
            yield "        return"
            yield "      done"
        if valued:
            yield "      case $prev in"
            for option in valued:
                yield f"        {'|'.join(option.names)}) {_bash_values(option.values)}; return ;;"
            yield "      esac"
        yield "      if [[ $cur == -* ]]; then"
        yield f"        mapfile -t COMPREPLY < <(compgen -W '{' '.join(_names(command.options))}' -- \"$cur\")"
        yield "        return"
        yield "      fi"
        values = next((one.values for one in command.arguments), ())
        if not programs:
            yield f"      {_bash_values(values)} ;;"
        else:
            yield "      ;;"
    yield "  esac"
    yield "}"
    yield "complete -o default -F _logdoctor logdoctor"


def _bash_values(values: Sequence[str]) -> str:
    if not values:
        return "compopt +o default"
    if values[0] == FILES:
        return ":"  # nothing of ours: bash offers files
    text = f'"${values[0]}"' if values[0] in _SORTS else f"'{' '.join(values)}'"
    return f'compopt +o default; mapfile -t COMPREPLY < <(compgen -W {text} -- "$cur")'


def _zsh(every: Sequence[Command], own: Sequence[Option], known: Words) -> Iterator[str]:
    yield "#compdef logdoctor"
    yield "# zsh completion for logdoctor. Put it into a folder of $fpath, before compinit is called:"
    yield "#   logdoctor completion zsh > ~/.zfunc/_logdoctor"
    yield "_logdoctor() {"
    for sort in _SORTS:
        yield f"  local -a logdoctor_{sort}=({' '.join(known.of(sort))})"
    yield "  local -a logdoctor_commands=("
    for command in every:
        yield f"    {_quoted(command.name + ':' + command.help)}"
    yield "  )"
    yield "  if (( CURRENT == 2 )); then"
    yield "    if [[ $words[2] == -* ]]; then"
    yield f"      _arguments {' '.join(_zsh_option(option) for option in own)}"
    yield "    else"
    yield "      _describe command logdoctor_commands"
    yield "    fi"
    yield "    return"
    yield "  fi"
    yield "  shift words"
    yield "  (( CURRENT-- ))"
    yield "  case $words[1] in"
    for command in every:
        parts = [_zsh_option(option) for option in command.options]
        parts += [_zsh_argument(one) for one in command.arguments]
        yield f"    {command.name}) _arguments -s \\"
        yield " \\\n".join(f"      {part}" for part in parts) + " ;;"
    yield "  esac"
    yield "}"
    yield 'if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _logdoctor "$@"; else compdef _logdoctor logdoctor; fi'


def _zsh_option(option: Option) -> str:
    shown = re.sub(r"([\[\]:])", r"\\\1", option.help)
    value = "" if option.flag else f":{option.metavar.lower()}:{_zsh_values(option.values)}"
    again = "*" if option.many else ""
    if len(option.names) == 1:
        return _quoted(f"{again}{option.names[0]}[{shown}]{value}")
    apart = "" if option.many else _quoted(f"({' '.join(option.names)})")
    return f"{apart}{again and _quoted(again)}{{{','.join(option.names)}}}{_quoted(f'[{shown}]{value}')}"


def _zsh_argument(one: Argument) -> str:
    if PROGRAMS in one.values:
        return _quoted(f"*::{one.name}: _normal")
    return _quoted(f"{'*' if one.many else ''}:{one.name}:{_zsh_values(one.values)}")


def _zsh_values(values: Sequence[str]) -> str:
    if not values:
        return " "
    if values[0] == FILES:
        return "_files"
    return f"compadd -a logdoctor_{values[0]}" if values[0] in _SORTS else f"({' '.join(values)})"


def _fish(every: Sequence[Command], own: Sequence[Option], known: Words) -> Iterator[str]:
    yield "# fish completion for logdoctor. Put it where fish finds it:"
    yield "#   logdoctor completion fish > ~/.config/fish/completions/logdoctor.fish"
    for sort in _SORTS:
        yield f"set -g __logdoctor_{sort} {' '.join(known.of(sort))}"
    yield "complete -c logdoctor -f"
    for option in own:
        yield f"complete -c logdoctor -n __fish_use_subcommand {_fish_option(option)}"
    for command in every:
        yield f"complete -c logdoctor -n __fish_use_subcommand -a {command.name} -d {_fish_quoted(command.help)}"
    for command in every:
        when = f"-n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            yield f"complete -c logdoctor {when} {_fish_option(option)}"
        values = next((one.values for one in command.arguments), ())
        if PROGRAMS in values:
            yield f"complete -c logdoctor {when} -a '(__fish_complete_subcommand --fcs-skip=2)'"
        elif values:
            yield f"complete -c logdoctor {when} {_fish_values(values)}"


def _fish_option(option: Option) -> str:
    text = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    if not option.flag:
        text += " -r" if FILES in option.values else " -x"
    return f"{text} {_fish_values(option.values)} -d {_fish_quoted(option.help)}".replace("  ", " ")


def _fish_values(values: Sequence[str]) -> str:
    if not values:
        return ""
    if values[0] == FILES:
        return "-F"
    return f"-a '$__logdoctor_{values[0]}'" if values[0] in _SORTS else f"-a '{' '.join(values)}'"


def _names(options: Sequence[Option]) -> list[str]:
    return [name for option in options for name in option.names]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Maker] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
