# Runs pgbench on a host for one trial. What stands before this was written for the trial: $password, $pgbench (empty: the
# one in PATH, else the newest there is) and two functions, put_files and run_pgbench.
#
# It is told what to do by lines on standard input and answers with lines on standard output that begin with "pgthaw".
# When standard input ends, whoever asked for all this is gone, and so is pgbench.
export LC_ALL=C
umask 077
say() { printf 'pgthaw %s\n' "$*"; }
fail() { say "failed $*"; exit 1; }

directory=
trap 'exit 1' HUP INT TERM PIPE
trap '[ -z "$directory" ] || rm -rf "$directory"' EXIT
directory=$(mktemp -d "${TMPDIR:-/tmp}/pgthaw-XXXXXXXX") || fail "cannot make a temporary directory"
cd "$directory" || exit 1

# The server that this host may have is not meant.
for name in $(env | sed -n 's/^\(PG[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export PGPASSWORD="$password" PGSSLMODE=disable PGGSSENCMODE=disable
if [ -z "$pgbench" ]; then
  pgbench=$(command -v pgbench) ||
    pgbench=$(ls -d /usr/lib/postgresql/*/bin/pgbench /usr/pgsql-*/bin/pgbench 2>/dev/null | sort -V | tail -n 1)
fi
[ -n "$pgbench" ] || fail "there is no pgbench"
version=$("$pgbench" --version 2>&1) || fail "$version"
put_files || fail "cannot write to $directory"
say "version $version"
say "machine $(cat /proc/sys/kernel/random/boot_id 2>/dev/null) $(readlink /proc/self/ns/pid)"
say ready

at=
while read -r word rest; do
  case $word in
    clock) say "clock $(date +%s%N)" ;;
    start) at=$rest && break ;;
  esac
done
[ -n "$at" ] || exit 1

exec 3<&0
(
  left=$((at - $(date +%s%N)))
  [ "$left" -le 0 ] || sleep "$((left / 1000000000)).$(printf %09d $((left % 1000000000)))"
  date +%s%N >begun
  run_pgbench >report
) </dev/null 3<&- &
generator=$!
say "process $generator"
# Whoever listens may end it before its time, or be gone.
{
  while read -r word; do [ "$word" != alarm ] || kill -s ALRM "$generator"; done
  kill -s KILL "$generator"
} <&3 2>/dev/null &
watcher=$!
exec 3<&-
wait "$generator"
status=$?
ended=$(date +%s%N)
kill -s KILL "$watcher" 2>/dev/null
say "ended $status $ended $(cat begun 2>/dev/null)"
[ "$status" = 0 ] || exit 1
for file in report log.*; do
  [ -f "$file" ] || continue
  say "file $(wc -c <"$file") $file"
  cat "$file"
done
say done
exit 0
