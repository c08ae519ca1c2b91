//! The mistakes.

/// What mends a mistake.
#[derive(Clone, Copy, Debug)]
pub enum Mend {
    /// This; then the same command works.
    First(&'static str),
    /// This is what was meant.
    Instead(&'static str),
    /// Nothing that a test can do, and why.
    Untried(&'static str),
}

/// A command line that fails.
#[derive(Clone, Copy, Debug)]
pub struct Mistake {
    pub what: &'static str,
    pub command: &'static str,
    pub mend: Mend,
}

const fn made(what: &'static str, command: &'static str, mend: Mend) -> Mistake {
    Mistake { what, command, mend }
}

use Mend::{First, Instead, Untried};

pub const GROUPS: &[(&str, &[Mistake])] = &[
    ("The server", CONNECTIONS),
    ("The data directory", DIRECTORIES),
    ("Rights and extensions", RIGHTS),
    ("Relations and options", RELATIONS),
    ("Films", FILMS),
    ("Snapshots", SNAPSHOTS),
    ("Making cold", COLD),
    ("A full disk", FULL),
    ("Studies", STUDIES),
    ("Runs, results and reports", RESULTS),
    ("Settings of pgthaw", SETTINGS),
];

const CONNECTIONS: &[Mistake] = &[
    made("No server has its socket there.", "pgthaw map -h /nowhere", Instead("pgthaw map -h \"$PGHOST\"")),
    made("Nobody listens on the port.", "pgthaw map -p 1", Instead("pgthaw map")),
    made("Nobody listens at the address.", "pgthaw map -h 127.0.0.1 -p 1", Instead("pgthaw map")),
    made("The role does not exist.", "pgthaw map -U nobody_here", Instead("pgthaw map -U postgres")),
    made("The database is mistyped.", "pgthaw map -d shopp", Instead("pgthaw map -d shop")),
    made(
        "The password is wrong.",
        "PGPASSWORD=planted-secret pgthaw map -U ann",
        Instead("PGPASSWORD=right-planted-secret pgthaw map -U ann"),
    ),
    made(
        "A password is asked for, and there is none.",
        "pgthaw map -U ann",
        Instead("PGPASSWORD=right-planted-secret pgthaw map -U ann"),
    ),
    made(
        "The password file can be read by others.",
        "PGPASSFILE=wide.pgpass pgthaw map -U ann",
        First("chmod 600 wide.pgpass"),
    ),
    made(
        "The address begins with a word that is none.",
        "pgthaw map -d postgress://ann:planted-secret@localhost/shop",
        Instead("pgthaw map -d shop"),
    ),
    made(
        "A word of the connection string is mistyped.",
        "pgthaw map -d 'hots=/tmp dbname=shop'",
        Instead("pgthaw map -d shop"),
    ),
    made("The mode of encryption is mistyped.", "PGSSLMODE=preferr pgthaw map", Instead("PGSSLMODE=prefer pgthaw map")),
    made("No such service.", "PGSERVICE=shopp pgthaw map", Instead("pgthaw map")),
    made("The port is no number.", "PGPORT=five pgthaw map", Instead("pgthaw map")),
    made("The server was stopped.", "pgthaw map -h \"$STOPPED_HOST\"", Instead("pgthaw map -D \"$STOPPED_DATA\"")),
];

const DIRECTORIES: &[Mistake] = &[
    made("The data directory is not there.", "pgthaw map -D /nowhere", Instead("pgthaw map -D \"$DATA\"")),
    made("It is a directory, but none of data.", "pgthaw map -D a-directory", Instead("pgthaw map -D \"$DATA\"")),
    made(
        "It belongs to another cluster than the server.",
        "pgthaw map -h \"$PGHOST\" -D \"$STOPPED_DATA\"",
        Instead("pgthaw map -h \"$PGHOST\" -D \"$DATA\""),
    ),
    made(
        "Somebody else's data directory.",
        "setpriv --reuid 65534 --clear-groups pgthaw map -D \"$STOPPED_DATA\"",
        Instead("pgthaw map -D \"$STOPPED_DATA\""),
    ),
    made(
        "A database's name, of a stopped server.",
        "pgthaw map -D \"$STOPPED_DATA\" -d shop",
        Instead("pgthaw map -D \"$STOPPED_DATA\""),
    ),
];

const RIGHTS: &[Mistake] = &[
    made(
        "The role may not look at anything.",
        "pgthaw snapshot take -U bob",
        First("psql -d postgres -c 'GRANT pg_monitor TO bob'"),
    ),
    made(
        "The role may not evict.",
        "pgthaw evict -U bob -d shop -r orders --yes",
        Instead("pgthaw evict -d shop -r orders --yes"),
    ),
    made(
        "A capability that does not exist.",
        "pgthaw doctor --require bufers",
        Instead("pgthaw doctor --require buffers"),
    ),
];

const RELATIONS: &[Mistake] = &[
    made("A relation is mistyped.", "pgthaw map -r order", Instead("pgthaw map -r orders")),
    made("A schema is mistyped.", "pgthaw map --schema sale", Instead("pgthaw map --schema sales")),
    made("A quote is not closed.", "pgthaw map -r '\"orders'", Instead("pgthaw map -r orders")),
    made("A number is none.", "pgthaw map --top many", Instead("pgthaw map --top 5")),
    made("An option is mistyped.", "pgthaw map --shcema public", Instead("pgthaw map --schema public")),
    made("A command is mistyped.", "pgthaw mpa", Instead("pgthaw map")),
    made("A map that moves is no document.", "pgthaw map --watch --json", Instead("pgthaw map --json")),
    made("A tier that does not exist.", "pgthaw restore --tier disk", Instead("pgthaw restore --dry-run --tier os")),
];

const FILMS: &[Mistake] = &[
    made("Nothing was named.", "pgthaw film record", Instead("pgthaw film record --seconds 1")),
    made(
        "The process is none of the server's.",
        "pgthaw film record --backend 1",
        Instead(
            "pgthaw film record --seconds 1 --backend $(psql -Atc \"SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'\")",
        ),
    ),
    made(
        "The database is mistyped.",
        "pgthaw film record --database shopp",
        Instead("pgthaw film record --seconds 1 --database shop"),
    ),
    made(
        "No film is called so.",
        "pgthaw film show month-end",
        First("pgthaw film record --seconds 1 --like month-end"),
    ),
];

const SNAPSHOTS: &[Mistake] = &[
    made("No snapshot was taken yet.", "pgthaw restore --dir none", First("pgthaw snapshot take --dir none")),
    made("No snapshot is called so.", "pgthaw restore before-upgrade", Instead("pgthaw restore newest")),
    made("The name fits several.", "pgthaw restore 20", Instead("pgthaw restore newest")),
    made("The file is not there.", "pgthaw restore ./gone.parquet", Instead("pgthaw restore ./good.parquet")),
    made("The file was cut off.", "pgthaw restore ./truncated.parquet", Instead("pgthaw restore ./good.parquet")),
    made("The file is empty.", "pgthaw snapshot show ./empty.parquet", Instead("pgthaw snapshot show ./good.parquet")),
    made(
        "The file is something else.",
        "pgthaw snapshot show ./notes.txt",
        Instead("pgthaw snapshot show ./good.parquet"),
    ),
    made(
        "The snapshot is of another cluster.",
        "pgthaw restore ./other.parquet",
        Instead("pgthaw restore ./good.parquet"),
    ),
    made(
        "A label has a blank.",
        "pgthaw snapshot take --label 'before upgrade'",
        Instead("pgthaw snapshot take --label before-upgrade"),
    ),
    made(
        "The file is there already.",
        "pgthaw snapshot take -o notes.txt",
        Instead("pgthaw snapshot take -o new.parquet"),
    ),
    made(
        "The place for snapshots is a file.",
        "pgthaw snapshot take --dir notes.txt",
        Instead("pgthaw snapshot take --dir kept"),
    ),
    made("A rate is no number.", "pgthaw restore --pace fast", Instead("pgthaw restore --pace 100MB")),
    made("A size has an unknown unit.", "pgthaw restore --budget 5XB", Instead("pgthaw restore --budget 5GB")),
    made("Two options exclude each other.", "pgthaw map --rows --watch", Instead("pgthaw map --rows")),
];

const COLD: &[Mistake] = &[
    made("Nothing was named.", "pgthaw evict --yes", Instead("pgthaw evict --yes -d shop -r orders")),
    made("The server is no lab's.", "pgthaw evict -d shop -r orders", Instead("pgthaw evict -d shop -r orders --yes")),
    made(
        "A relation is mistyped.",
        "pgthaw evict -d shop -r ordres --yes",
        Instead("pgthaw evict -d shop -r orders --yes"),
    ),
];

const FULL: &[Mistake] = &[
    made("Of the snapshots.", "pgthaw snapshot take --dir full", Instead("pgthaw snapshot take --dir kept")),
    made(
        "Of a snapshot's file.",
        "pgthaw snapshot take -o full/one.parquet",
        Instead("pgthaw snapshot take -o one.parquet"),
    ),
    made(
        "Of a report.",
        "pgthaw report --results results.sqlite -o full/report.html",
        Instead("pgthaw report --results results.sqlite -o report.html"),
    ),
    made(
        "Of an export.",
        "pgthaw results export --results results.sqlite --rows seconds -o full/seconds.csv",
        Instead("pgthaw results export --results results.sqlite --rows seconds -o seconds.csv"),
    ),
    made(
        "Of the results.",
        "pgthaw results import --results full/results.sqlite pgbench.txt",
        Instead("pgthaw results import --results imported.sqlite pgbench.txt"),
    ),
    made("Of the manual pages.", "pgthaw completions man full", Instead("pgthaw completions man man")),
    made(
        "Of a study.",
        "pgthaw bench warmup scale=1 seconds=5 --dir full --results study.sqlite --quiet",
        Untried("a study takes a while"),
    ),
    made("Of standard output.", "pgthaw completions bash > /dev/full", Instead("pgthaw completions bash")),
];

const STUDIES: &[Mistake] = &[
    made("A key is mistyped.", "pgthaw bench --dry-run key.toml", First("sed -i s/repeat/repeats/ key.toml")),
    made("An axis is mistyped.", "pgthaw bench --dry-run axis.toml", First("sed -i s/clinets/clients/ axis.toml")),
    made(
        "A key is mistyped on the command line.",
        "pgthaw bench --dry-run study.toml clinets=4",
        Instead("pgthaw bench --dry-run study.toml clients=4"),
    ),
    made(
        "A setting is mistyped.",
        "pgthaw bench --dry-run setting.toml",
        First("sed -i s/work_memm/work_mem/ setting.toml"),
    ),
    made("A setting cannot be set.", "pgthaw bench --dry-run fixed.toml", First("sed -i /block_size/d fixed.toml")),
    made("It is no TOML.", "pgthaw bench --dry-run syntax.toml", Instead("pgthaw bench --dry-run study.toml")),
    made("The file is not there.", "pgthaw bench --dry-run gone.toml", Instead("pgthaw bench --dry-run study.toml")),
    made(
        "The databases do not fit.",
        "pgthaw bench --dry-run --dir full study.toml",
        Instead("pgthaw bench --dry-run study.toml"),
    ),
    made("A disk that does not exist.", "pgthaw bench --dry-run disk.toml", First("sed -i s/gp4/gp3/ disk.toml")),
    made("A strategy that does not exist.", "pgthaw bench warmup strategy=catt", Untried("a study takes a while")),
    made(
        "No programs of PostgreSQL are there.",
        "pgthaw bench warmup --bin-dir a-directory",
        Untried("a study takes a while"),
    ),
    made(
        "The place for the cluster is not there.",
        "pgthaw bench warmup scale=1 seconds=5 --dir gone",
        Untried("a study takes a while"),
    ),
];

const RESULTS: &[Mistake] = &[
    made("There are no results yet.", "pgthaw results show", Instead("pgthaw results --results results.sqlite")),
    made(
        "No run is called so.",
        "pgthaw results show zzz --results results.sqlite",
        Instead("pgthaw results show --results results.sqlite"),
    ),
    made(
        "The run is damaged in the store.",
        "pgthaw results show spoilt --results results.sqlite",
        Instead("pgthaw results drop spoilt --results results.sqlite"),
    ),
    made(
        "The file is something else.",
        "pgthaw results --results notes.txt",
        Instead("pgthaw results --results results.sqlite"),
    ),
    made(
        "A table that does not exist.",
        "pgthaw results export --results results.sqlite --rows weeks",
        Instead("pgthaw results export --results results.sqlite --rows points"),
    ),
    made(
        "The report's file is a directory.",
        "pgthaw report --results results.sqlite -o a-directory",
        Instead("pgthaw report --results results.sqlite -o report.html"),
    ),
    made(
        "The report's file is something else.",
        "pgthaw report --results results.sqlite -o notes.txt",
        Instead("pgthaw report --results results.sqlite -o report.html"),
    ),
    made("The demo's report is something else.", "pgthaw bench demo -o notes.txt", Untried("a demo takes a while")),
    made("The demo's report has no place.", "pgthaw bench demo -o gone/demo.html", Untried("a demo takes a while")),
    made(
        "What is imported is no log.",
        "pgthaw results import --results another.sqlite notes.csv",
        Instead("pgthaw results import --results another.sqlite pgbench.txt"),
    ),
    made("What is judged is no log.", "pgthaw judge notes.txt", Instead("pgthaw judge pgbench.txt")),
    made("What is judged is empty.", "pgthaw judge empty.parquet", Instead("pgthaw judge pgbench.txt")),
    made("What is judged is not there.", "pgthaw judge ./gone.txt", Instead("pgthaw judge pgbench.txt")),
    made(
        "What cannot be is forecast.",
        "pgthaw predict pages=5 miss=1ms hit=2ms",
        Instead("pgthaw predict pages=5 miss=2ms hit=1ms"),
    ),
    made(
        "Others could look at the results.",
        "pgthaw serve --results results.sqlite --listen 0.0.0.0:8080",
        Untried("it serves until it is stopped"),
    ),
    made(
        "The token is too short.",
        "pgthaw serve --results results.sqlite --token-file short.token",
        Untried("it serves until it is stopped"),
    ),
    made(
        "The token's file is not there.",
        "pgthaw serve --results results.sqlite --token-file gone.token",
        Untried("it serves until it is stopped"),
    ),
    made(
        "The address is another machine's.",
        "pgthaw serve --results results.sqlite --listen 192.0.2.1:8080 --token-file good.token",
        Untried("it serves until it is stopped"),
    ),
];

const SETTINGS: &[Mistake] = &[
    made(
        "A key is mistyped.",
        "PGTHAW_CONFIG=settings.toml pgthaw restore --dry-run",
        Instead("PGTHAW_CONFIG=right.toml pgthaw restore --dry-run"),
    ),
    made("The file is not there.", "PGTHAW_CONFIG=gone.toml pgthaw map", Instead("pgthaw map")),
    made("A shell that is not known.", "pgthaw completions tcsh", Instead("pgthaw completions bash")),
];
