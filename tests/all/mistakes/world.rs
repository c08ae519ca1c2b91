//! What the mistakes are made in: servers, files and a directory, all named by variables of the shell.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use pgthaw_lab::study::SweepRun;
use postgres::StopMode;

use super::PLANTED;
use crate::servers::{self, Output, TestServer, output_of};
use crate::{results, synthetic_run};

const VERSION: u32 = 19;

/// A shop's server that is not a lab's; one that was stopped; and a place that is full.
pub struct World {
    pub shop: TestServer,
    pub stopped: TestServer,
    full: Option<FullPlace>,
}

/// A small file system in memory.
struct FullPlace(std::path::PathBuf);

impl World {
    pub fn make() -> Option<World> {
        needs_root!();
        // What PostgreSQL says itself differs between versions.
        if !servers::has(VERSION) {
            untested!(machine: "the page has the words of PostgreSQL 19: scripts/test-servers 19");
        }
        let shop = servers::start_new(VERSION, &[("cluster_name", "shop")]);
        let mut stopped = servers::start_new(VERSION, &[("cluster_name", "spare")]);
        stopped.pgthaw(&["snapshot", "take", "-o", "other.parquet"]).ok();
        let mut world = World {
            full: None,
            shop,
            stopped: {
                stopped.cluster.stop(StopMode::Fast).unwrap();
                stopped
            },
        };
        world.fill_server();
        world.write_files();
        world.full = FullPlace::mount(&world.shop.home().join("full"));
        world.full.as_ref()?;
        Some(world)
    }

    fn fill_server(&self) {
        let hba = self.shop.data_directory().join("pg_hba.conf");
        let rules = fs::read_to_string(&hba).unwrap();
        fs::write(&hba, format!("local all ann scram-sha-256\n{rules}")).unwrap();
        self.shop.psql("SELECT pg_reload_conf()");
        self.shop.psql("CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm");
        self.shop.psql(&format!("CREATE ROLE ann LOGIN PASSWORD 'right-{PLANTED}'; GRANT pg_monitor TO ann"));
        self.shop.psql("CREATE ROLE bob LOGIN; CREATE DATABASE shop; CREATE DATABASE bare");
        self.shop.psql_in("shop", "CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm");
        self.shop.psql_in("shop", "CREATE TABLE orders AS SELECT i FROM generate_series(1, 50000) AS i");
        self.shop.psql_in("shop", "CREATE SCHEMA sales; CREATE TABLE sales.items AS SELECT 1 AS i");
    }

    fn write_files(&self) {
        let home = self.shop.home();
        let write = |name: &str, text: &str| fs::write(home.join(name), text).unwrap();
        fs::create_dir(home.join("bin")).unwrap();
        crate::servers::copy_programs(&home.join("bin"));
        fs::copy(self.stopped.home().join("other.parquet"), home.join("other.parquet")).unwrap();
        write("wide.pgpass", &format!("*:*:*:ann:right-{PLANTED}\n"));
        fs::set_permissions(home.join("wide.pgpass"), fs::Permissions::from_mode(0o644)).unwrap();
        write("notes.txt", "buy milk\n");
        write("empty.parquet", "");
        self.sh("pgthaw snapshot take -o good.parquet && head -c 3000 good.parquet > truncated.parquet").ok();
        self.sh("pgthaw snapshot take --label one && pgthaw snapshot take --label two").ok();
        self.sh("sed 's/a/b/' notes.txt > notes.csv && mkdir a-directory man").ok();
        write("study.toml", "seed = 7\n[points]\nseconds = 5\nscale = 1\nclients = [1, 2]\n");
        write("key.toml", "repeat = 3\n[points]\nscale = 1\n");
        write("axis.toml", "[points]\nseconds = 5\nscale = 1\nclinets = 2\n");
        write("setting.toml", "[points]\nseconds = 5\nscale = 1\n[settings]\nwork_memm = \"4MB\"\n");
        write("fixed.toml", "[points]\nseconds = 5\nscale = 1\n[settings]\nblock_size = 8192\n");
        write("syntax.toml", "seconds = = 5\n");
        write("huge.toml", "[points]\nseconds = 5\nscale = 20000\n");
        write("disk.toml", "[points]\nseconds = 5\nscale = 1\ndisk = \"gp4\"\n");
        write("settings.toml", "[restore]\nmax-rat = \"100MB\"\n");
        write("right.toml", "[restore]\npace = \"100MB\"\n");
        write("short.token", "abc\n");
        self.sh("umask 077; openssl rand -hex 16 > good.token || echo 0123456789abcdef0123 > good.token").ok();
        write(
            "pgbench.txt",
            &(1..40).map(|i| format!("progress: {i}.0 s, 1000.0 tps, lat 1.000 ms stddev 0.1\n")).collect::<String>(),
        );
        let (run, trials) = synthetic_run::make(2, 20);
        let store = home.join("results.sqlite");
        results::keep(&store, &run, &trials);
        let spoilt = SweepRun { id: "spoilt".to_owned(), started_at: Timestamp::UNIX_EPOCH, ..run };
        results::keep(&store, &spoilt, &[]);
        results::sqlite(&store, "UPDATE sweeps SET machine = '{}' WHERE id = 'spoilt'");
    }

    /// Runs a command line in the home directory, with the shop's address in the environment.
    pub fn sh(&self, line: &str) -> Output {
        let command = self.shop.command(&[]);
        let environment: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(line).current_dir(self.shop.home());
        for (name, value) in environment {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let psql = self.shop.command_of("psql").get_program().to_owned();
        let programs = Path::new(&psql).parent().unwrap().to_owned();
        let path =
            format!("{}:{}:/usr/bin:/bin:/usr/sbin:/sbin", self.shop.home().join("bin").display(), programs.display());
        let stopped = self.stopped.cluster.connect_options("postgres");
        shell
            .env("PATH", path)
            .env("LC_ALL", "C")
            .env("PGTHAW_BIN_DIR", programs)
            .env("DATA", self.shop.data_directory());
        shell.env("STOPPED_DATA", self.stopped.data_directory()).env("STOPPED_HOST", stopped.host.unwrap());
        output_of(shell.stdin(std::process::Stdio::null()))
    }
}

impl FullPlace {
    /// `None` where nothing can be mounted.
    fn mount(place: &Path) -> Option<FullPlace> {
        fs::create_dir(place).unwrap();
        let mounted = output_of(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(place));
        if mounted.status != 0 {
            untested!("nothing can be mounted here: {}", mounted.stderr);
        }
        let full = FullPlace(place.to_owned());
        // Up to the last page.
        let _ = fs::write(place.join("ballast"), vec![0; 1 << 20]);
        Some(full)
    }
}

impl Drop for FullPlace {
    fn drop(&mut self) {
        output_of(Command::new("umount").arg(&self.0));
    }
}
