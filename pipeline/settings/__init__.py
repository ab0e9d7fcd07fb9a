"""From a file, a preset and `--set` to a resolved config; `pipeline/config` says what may stand in one."""
