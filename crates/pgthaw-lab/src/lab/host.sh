# Runs pgbench on a host for one trial. Generated text before this sets $password and $pgbench (empty: search for it) and
# defines the functions put_files and run_pgbench.
#
# Commands are lines on standard input. Answers are lines on standard output that begin with "pgthaw". When standard input
# ends, pgthaw is gone, and pgbench is killed.
export LC_ALL=C
umask 077
say() { printf 'pgthaw %s\n' "$*"; }
fail() { say "failed $*"; exit 1; }

directory=
trap 'exit 1' HUP INT TERM PIPE
trap '[ -z "$directory" ] || rm -rf "$directory"' EXIT
directory=$(mktemp -d "${TMPDIR:-/tmp}/pgthaw-XXXXXXXX") || fail "cannot make a temporary directory"
cd "$directory" || exit 1

# These variables would point libpq to a server of this host.
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
# pgthaw may end pgbench early, or be gone.
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
