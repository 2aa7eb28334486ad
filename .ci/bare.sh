#!/usr/bin/env bash
# bare.sh COMMAND... : run a command as if Nsight Systems, Apptainer, Slurm and a browser were not installed, with Debian's Python
# first. PATH becomes one folder of links to all other programs. The exit status is the command's.
set -euo pipefail
links=$(mktemp -d)
trap 'rm -rf "$links"' EXIT
declare -A programs  # their paths; all links are made at once, since there are thousands
for folder in /usr/bin /bin /usr/sbin /sbin /usr/local/bin; do
  for program in "$folder"/*; do
    name=${program##*/}
    case $name in
      nsys* | nsight* | apptainer* | singularity* | chromium* | google-chrome* | firefox*) ;;
      sinfo | sbatch | srun | squeue | scontrol | sacct* | salloc | scancel | slurm* | munge*) ;;
      *) [[ ! -e $program || -v programs["$name"] ]] || programs["$name"]=$program ;;
    esac
  done
done
printf '%s\0' "${programs[@]}" | xargs -0 ln -s -t "$links"
env -u VIRTUAL_ENV PATH="$links" "$@"
