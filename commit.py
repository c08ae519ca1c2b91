"""Commits the work tree in parts: hunks of `git diff -U0` by what they hold."""
import re, subprocess, sys
def git(*a, inp=None):
    return subprocess.run(['git',*a],input=inp,text=True,capture_output=True,check=True).stdout
subprocess.run(['git','add','-N','.'],check=True)
TESTS={'a_trial_is_kept_however_long_somebody_reads':'busy','a_sweep_that_was_begun_anew':'anew','a_whole_sweep_is_kept':'import','points_are_shown_without':'show'}
def classify(path,hunk):
    h=hunk
    if path=='src/bench/sweep/outline.rs': return 'wal'
    if path=='src/bench/sweep/point.rs': return 'none'
    if path in('src/results/sweep_read.rs',): return 'anew'
    if path in('src/results/sweep_write.rs','src/commands/results_import.rs') or path.startswith('src/bench/sweep/import'): return 'import'
    if path in('src/results/export/table.rs',) or '0017' in path: return 'views'
    if path in('src/results/write.rs','src/commands/results.rs','src/commands/results_drop.rs','src/commands/mod.rs','tests/all/results_server.rs'): 
        return 'views' if path.endswith('results_server.rs') and '+pub fn' in h else 'drop'
    if path in('src/bench/mod.rs','src/bench/sweep/mod.rs','src/bench/sweep/summary.rs','src/commands/results_sweep.rs'): return 'show'
    if path in('src/results/error.rs','src/commands/study.rs','src/commands/bench_residency.rs'): return 'busy'
    if path=='src/results/store.rs': return 'views' if '0017' in h else 'busy'
    if path=='src/results/place.rs': return 'drop' if 'open_local_copy' in h else 'busy'
    if path=='src/commands/store.rs': return 'drop' if 'open_local_copy' in h else 'busy'
    if path=='src/commands/bench_sweep.rs': return 'show'
    if path=='docs/sweep.md': return 'anew'
    if path=='docs/queries.md': return 'import' if 'pg17' in h or 'interrupted has' in h or 'imported once' in h else 'drop' if 'results drop' in h else 'views'
    if path=='tests/all/results_exchange.rs': return 'views'
    if path=='tests/all/results.rs': return 'import'
    raise SystemExit(f'whose is {path}?\n{h}')
ORDER=[('wal','What backends wrote themselves is counted of relations alone: since 18 pg_stat_io has the log too'),
('none','A point without a latency limit is found by the word of the study file, as one without a rate'),
('busy','A measured trial waits for readers of the file instead of being lost after ten seconds'),
('show','Points are shown from outlines, and --json trial by trial: all seconds of a large sweep do not fit into memory'),
('anew','Only the newest run of a study is gone on with: what was begun anew is not undone by an older one'),
('import','An import is kept whole or not at all; servers of pgbench-tools are points of their own'),
('views','Views and exports tell file system, server, strategy and latency limit, and what a trial wrote, tried again and was late with'),
('drop','What is dropped on a server is dropped in the local file too: a study went on with it, and sent it again')]
def split(diff):
    parts=[]
    for f in re.split(r'(?m)^(?=diff --git )',diff)[1:]:
        head,*hs=re.split(r'(?m)^(?=@@ )',f)
        path=re.search(r'^diff --git a/(.*?) b/',f).group(1)
        for h in hs: parts.append((path,head,h))
    return parts
if len(sys.argv)>1:
    for p,_,h in split(git('diff','-U0')): print(classify(p,h),p,h.split('\n')[1][:80])
    raise SystemExit
for kind,message in ORDER:
    by={}
    for p,head,h in split(git('diff','-U0')):
        if classify(p,h)==kind: by.setdefault(p,[head]).append(h)
    patch=''.join(''.join(v) for v in by.values())
    new=[p for p,v in by.items() if 'new file' in v[0]]
    for p in new: git('add',p)
    patch=''.join(''.join(v) for p,v in by.items() if p not in new)
    if patch: git('apply','--cached','--unidiff-zero','-',inp=patch)
    print(git('commit','-qm',message), kind)
print(git('status','--short'))
