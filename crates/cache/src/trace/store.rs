//! Stores films in the layout of snapshots, and resolves names to films.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::error::{Error, Result};
use super::film::{Film, FilmHeader, Recorded};
use crate::warm::{STATE, state_directory};
use crate::{Generation, NEWEST, SnapshotStore, find_by_beginning, is_path};
use host::files::{Draft, draft_beside};
use host::linux::own_program::state_in;

pub const KEPT: usize = 7;

/// Minimum size of a new command's film, as a share of the largest film's blocks. A smaller film is a mistake, such as
/// `SELECT 1` under the wrong label.
const SLIP_SHARE: f64 = 0.01;

const BELOW_STATE: &str = "films";

#[derive(Clone, Debug)]
pub struct FilmStore(SnapshotStore);

#[derive(Clone, Debug)]
pub enum Which {
    Like(String),
    Named(String),
}

#[derive(Debug)]
pub struct Like {
    /// The last film is the chosen one. An equally large film that was recorded with fewer blocks already cached may
    /// precede it.
    pub films: Vec<Film<File>>,
    pub name: String,
    pub remarks: Vec<String>,
}

impl FilmStore {
    pub fn open() -> FilmStore {
        FilmStore::at(state_directory().join(BELOW_STATE))
    }

    pub fn in_home(home: &Path) -> FilmStore {
        FilmStore::at(state_in(home).join(STATE).join(BELOW_STATE))
    }

    pub fn at(root: PathBuf) -> FilmStore {
        FilmStore(SnapshotStore::open(Some(root)))
    }

    pub fn root(&self) -> &Path {
        self.0.root()
    }

    /// The path is the cluster's directory or `path`, for messages.
    pub fn begin(&self, system_identifier: u64, path: Option<&Path>) -> Result<(Draft, PathBuf)> {
        let Some(path) = path else {
            return Ok((self.0.begin(system_identifier)?, self.0.cluster_directory(system_identifier)));
        };
        let draft = draft_beside(path).map_err(|source| Error::file("create a file beside", path, source))?;
        Ok((draft, path.to_owned()))
    }

    /// `path` must not exist.
    pub fn place(&self, recorded: Recorded, path: Option<&Path>) -> Result<(PathBuf, FilmHeader)> {
        let Recorded { draft, header } = recorded;
        let Some(path) = path else {
            let cluster = header.source.system_identifier;
            // Does not wait for the device: the next run replaces a lost film.
            let kept = self.0.place(draft.without_sync(), cluster, header.recorded_at, header.label.as_deref())?;
            return Ok((kept.path, header));
        };
        let placed = draft.place_new(path.file_name().unwrap_or_default());
        placed.map_err(|source| Error::file("write", path, source))?;
        Ok((path.to_owned(), header))
    }

    pub fn read_all(&self) -> Result<Films> {
        let mut films = self.0.read_all()?;
        films.sort_by(|one, other| other.name.cmp(&one.name));
        Ok(Films { root: self.root().to_owned(), films })
    }

    pub fn find_of(&self, cluster: Option<u64>, name: &str) -> Result<PathBuf> {
        if is_path(name) { Ok(name.into()) } else { self.read_all()?.find_of(cluster, name) }
    }

    pub fn find_all(&self, cluster: Option<u64>, name: &str) -> Result<Vec<Generation>> {
        let all = self.read_all()?;
        let path = all.find_of(cluster, name)?;
        let mut meant = all.labelled(&path, name);
        if meant.is_empty() {
            meant.extend(all.films.iter().find(|one| one.path == path));
        }
        match meant.is_empty() {
            true => Err(Error::UnknownFilm { name: name.to_owned(), directory: self.root().to_owned() }),
            false => Ok(meant.into_iter().cloned().collect()),
        }
    }

    pub fn forget(&self, film: &Generation) -> Result<()> {
        Ok(self.0.forget(film)?)
    }

    /// Opens the film that `name` refers to, with remarks on the choice. If the film is damaged, opens another one that
    /// matches.
    pub fn open_sound(&self, cluster: Option<u64>, name: &str, alone: bool) -> Result<(Film<File>, Vec<String>)> {
        let nowhere = || Films { root: self.root().to_owned(), films: Vec::new() };
        let mut films = if is_path(name) { nowhere() } else { self.read_all()? };
        let mut damage: Vec<Error> = Vec::new();
        loop {
            let could_be_another = |chosen: &Chosen| name == NEWEST || !films.labelled(&chosen.path, name).is_empty();
            let chosen = match films.find(cluster, name, alone) {
                Ok(chosen) if damage.is_empty() || could_be_another(&chosen) => chosen,
                Err(error) if damage.is_empty() => return Err(error),
                _ => return Err(damage.swap_remove(0)),
            };
            match Film::open(&chosen.path) {
                Ok(film) => {
                    let passed_over =
                        damage.iter().map(|error| format!("{error}; {} was used instead", chosen.path.display()));
                    return Ok((film, passed_over.chain(chosen.remark(name)).collect()));
                }
                Err(error) if could_be_another(&chosen) && error.is_damage() => {
                    films.leave_out(&chosen.path);
                    damage.push(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn labelled(&self, cluster: u64, label: &str) -> Result<Vec<Generation>> {
        let mut films = self.0.read_generations(cluster)?;
        films.retain(|one| one.label() == Some(label));
        Ok(films)
    }

    fn read_which(&self, which: &Which, cluster: Option<u64>) -> Result<Vec<FilmHeader>> {
        let films = match (which, cluster) {
            (Which::Named(name), _) => return Ok(vec![FilmHeader::read_unverified(&self.find_of(cluster, name)?)?]),
            (Which::Like(label), Some(cluster)) => read_headers(self.labelled(cluster, label)?.iter()),
            (Which::Like(label), None) => read_headers(self.read_all()?.newest_of_clusters(label)),
        };
        Ok(films.into_iter().map(|(_, header)| header).collect())
    }

    /// Databases that the films used, newest film first; `None` if unknown.
    pub fn databases(&self, which: &Which, cluster: u64) -> Option<Vec<String>> {
        let headers = self.read_which(which, Some(cluster)).ok()?;
        let own = headers.into_iter().filter(|header| header.source.system_identifier == cluster);
        let mut known = BTreeSet::new();
        let names: Vec<String> = own.flat_map(|one| one.databases).filter(|name| known.insert(name.clone())).collect();
        (!names.is_empty()).then_some(names)
    }

    /// First database of each cluster's newest film, if all agree. Used while the server's cluster is unknown.
    pub fn first_database(&self, which: &Which) -> Option<String> {
        let headers = self.read_which(which, None).ok()?;
        let mut firsts = headers.iter().map(FilmHeader::first_database);
        let first = firsts.next()??;
        firsts.all(|other| other == Some(first)).then(|| first.to_owned())
    }

    pub fn find_newest_like(&self, cluster: u64, label: &str) -> Result<Option<PathBuf>> {
        Ok(self.labelled(cluster, label)?.into_iter().next().map(|one| one.path))
    }

    /// Opens the newest film of the command most similar to `job`, preferably of today's weekday. Excludes films with
    /// less than 80 % of the largest one's blocks, because a warm job leaves a small film. Skips unreadable films and
    /// those recorded up to `after`.
    pub fn find_like(&self, cluster: u64, label: &str, job: &str, after: Option<Timestamp>) -> Result<Like> {
        let mut remarks = Vec::new();
        let mut films = Vec::new();
        for one in self.labelled(cluster, label)? {
            match read_header(&one) {
                Ok(header) if header.source.system_identifier != cluster => remarks.push(format!(
                    "skipped film {}: {}",
                    one.name,
                    Error::OtherCluster { path: one.path, film: header.source.system_identifier, cluster }
                )),
                Ok(header) if after.is_some_and(|after| header.recorded_at <= after) => {}
                Ok(header) => films.push((one, header)),
                Err(error) => remarks.push(format!("skipped film {}: {error}", one.name)),
            }
        }
        let most = films.iter().map(|(_, header)| likeness(&header.job, job)).fold(0.0, f64::max);
        films.retain(|(_, header)| likeness(&header.job, job) == most);
        let day = |at: Timestamp| at.to_zoned(TimeZone::system()).weekday();
        let today = day(Timestamp::now());
        let of = |(_, header): &(_, FilmHeader)| (header.totals.wanted_blocks(), day(header.recorded_at) == today);
        while let Some(at) = choose(films.iter().map(of)) {
            let alone = find_alone(&films, films[at].1.totals.wanted_blocks()).map(|one| one.path.clone());
            let (one, _) = films.remove(at);
            let alone = alone.filter(|alone| *alone != one.path).and_then(|path| Film::open(&path).ok());
            match Film::open(&one.path) {
                Ok(film) => {
                    return Ok(Like { films: alone.into_iter().chain([film]).collect(), name: one.name, remarks });
                }
                Err(error) => remarks.push(format!("skipped film {}: {error}", one.name)),
            }
        }
        let empty = films.iter().map(|(one, _)| {
            format!(
                "film {} has no blocks to preload: shared_buffers contained them all, or no session of its job was found",
                one.name
            )
        });
        remarks.extend(empty);
        if self.read_all()?.find_other_clusters(cluster, label).is_some() {
            remarks.push(format!("all films named {label} belong to other clusters"));
        }
        Ok(Like { films: Vec::new(), name: String::new(), remarks })
    }

    /// Whether the film's command is new for this label, and the film has less than `SLIP_SHARE` of the largest film's
    /// blocks. Such a film must not be used as the label's newest film. Ignores the film `lost`, because most of its
    /// blocks no longer exist.
    pub fn is_slip(&self, header: &FilmHeader, label: &str, lost: Option<&str>) -> Result<bool> {
        let films = self.labelled(header.source.system_identifier, label)?;
        let known = read_headers(films.iter().filter(|one| Some(one.name.as_str()) != lost));
        let is_known = known.iter().any(|(_, known)| known.job == header.job);
        let largest = largest_blocks(&known) as f64;
        Ok(!is_known && (header.totals.wanted_blocks() as f64) < largest * SLIP_SHARE)
    }

    /// Deletes films, except the newest `KEPT`, the largest, and two that best show the job without other load: one of
    /// any command, one of the newest command. Spares `lost` only if it is among the newest.
    pub fn prune(&self, cluster: u64, label: &str, lost: Option<&str>) -> Result<()> {
        let films = self.labelled(cluster, label)?;
        let known = read_headers(films.iter().filter(|one| Some(one.name.as_str()) != lost));
        let size = |(_, header): &&(Generation, FilmHeader)| header.totals.wanted_blocks();
        let largest = known.iter().rev().max_by_key(size).map(|(one, _)| one);
        let job = known.first().map(|(_, header)| header.job.as_str());
        let of_job: Vec<_> = known.iter().filter(|(_, header)| Some(header.job.as_str()) == job).cloned().collect();
        let alone = [&known, &of_job].map(|films| find_alone(films, largest_blocks(films)));
        let is_spared =
            |one: &Generation| [largest, alone[0], alone[1]].iter().flatten().any(|spared| spared.path == one.path);
        for one in films.iter().skip(KEPT).filter(|one| !is_spared(one)) {
            self.0.drop_if_there(one)?;
        }
        Ok(())
    }
}

/// Index of the best film; `None` if all are empty. `films`: each film's blocks, and whether its weekday is today's,
/// newest first.
fn choose(films: impl Iterator<Item = (u64, bool)> + Clone) -> Option<usize> {
    let largest = films.clone().map(|(blocks, _)| blocks).max().filter(|largest| *largest > 0)?;
    let whole = |blocks: u64| blocks as f64 >= largest as f64 * WHOLE;
    let of_day = films.clone().position(|(blocks, is_of_day)| is_of_day && whole(blocks));
    of_day.or_else(|| films.into_iter().position(|(blocks, _)| whole(blocks)))
}

/// Jaccard similarity of the words, 0 to 1.
fn likeness(one: &str, other: &str) -> f64 {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<String>>();
    let (one, other) = (words(one), words(other));
    one.intersection(&other).count() as f64 / one.union(&other).count().max(1) as f64
}

/// A film with this share of the largest film's blocks counts as equally large.
pub const WHOLE: f64 = 0.8;

#[derive(Clone, Debug)]
pub struct Films {
    root: PathBuf,
    pub films: Vec<Generation>,
}

#[derive(Debug)]
pub struct Chosen {
    pub path: PathBuf,
    pub films: usize,
    alone: bool,
    has_others: bool,
}

impl Chosen {
    pub fn remark(&self, name: &str) -> Option<String> {
        let Chosen { films, alone, has_others, .. } = self;
        let why = if *alone { "was recorded with the fewest blocks already cached" } else { "is the newest" };
        let of_others = if *has_others { "; those of other clusters were skipped" } else { "" };
        match films {
            1 => has_others.then(|| format!("pgthaw chose the film named {name} of this server's cluster{of_others}")),
            _ => Some(format!(
                "pgthaw chose this film among {films} films of this command named {name}: it {why}{of_others}"
            )),
        }
    }
}

impl Films {
    /// Resolves a path, `newest`, a label (its newest film), or the beginning of a name, preferably of this cluster.
    ///
    /// # Errors
    /// If no film matches, if several names begin with `name`, or if this cluster has no film with the label and
    /// several others have one.
    pub fn find_of(&self, cluster: Option<u64>, name: &str) -> Result<PathBuf> {
        if is_path(name) {
            return Ok(name.into());
        }
        let mut films = self.films.clone();
        films.sort_by_key(|one| cluster.is_some_and(|cluster| one.system_identifier != cluster));
        if films.is_empty() {
            return Err(Error::NoFilm(self.root.clone()));
        }
        if let Some(one) = films.iter().find(|one| name == NEWEST || one.label() == Some(name) || one.name == name) {
            let is_own = cluster == Some(one.system_identifier) || name == NEWEST || one.name == name;
            let candidates: Vec<String> = self.newest_of_clusters(name).map(|one| one.name.clone()).collect();
            return match is_own || candidates.len() < 2 {
                true => Ok(one.path.clone()),
                false => Err(Error::SeveralClusters { name: name.to_owned(), candidates }),
            };
        }
        find_by_beginning(films, name).map(|one| one.path).map_err(|candidates| match candidates.is_empty() {
            true => Error::UnknownFilm { name: name.to_owned(), directory: self.root.clone() },
            false => Error::AmbiguousFilm { name: name.to_owned(), candidates },
        })
    }

    fn newest_of_clusters(&self, label: &str) -> impl Iterator<Item = &Generation> {
        let mut clusters = BTreeSet::new();
        let is_newest = move |one: &&Generation| one.label() == Some(label) && clusters.insert(one.system_identifier);
        self.films.iter().filter(is_newest)
    }

    /// Newest film of the label in another cluster; `None` if this cluster has one.
    pub fn find_other_clusters(&self, cluster: u64, label: &str) -> Option<&Generation> {
        let mut films = self.films.iter().filter(|one| one.label() == Some(label));
        let newest = films.next()?;
        (newest.system_identifier != cluster && films.all(|one| one.system_identifier != cluster)).then_some(newest)
    }

    fn leave_out(&mut self, path: &Path) {
        let cluster = self.films.iter().find(|one| one.path == path).map(|one| one.system_identifier);
        self.films.retain(|one| one.path != path && Some(one.system_identifier) == cluster);
    }

    fn labelled(&self, path: &Path, name: &str) -> Vec<&Generation> {
        let labelled = || self.films.iter().filter(|one| one.label() == Some(name) && name != NEWEST);
        let meant = labelled().find(|one| one.path == path);
        labelled().filter(|one| meant.is_some_and(|meant| meant.system_identifier == one.system_identifier)).collect()
    }

    /// Like `find_of`, but counts the candidates. With `alone`, chooses the candidate with recorded requests that best
    /// shows the job without other load.
    pub fn find(&self, cluster: Option<u64>, name: &str, alone: bool) -> Result<Chosen> {
        let path = self.find_of(cluster, name)?;
        let mut films = read_headers(self.labelled(&path, name).into_iter());
        let job = films.first().map(|(_, header)| header.job.clone());
        films.retain(|(_, header)| Some(&header.job) == job.as_ref());
        let count = films.len();
        let has_others = count > 0 && self.newest_of_clusters(name).count() > 1;
        films.retain(|(_, header)| alone && header.sampling.is_some());
        let path = find_alone(&films, largest_blocks(&films)).map_or(path, |one| one.path.clone());
        Ok(Chosen { path, films: count.max(1), alone, has_others })
    }
}

fn read_header(one: &Generation) -> Result<FilmHeader> {
    FilmHeader::read_unverified(one.require_file()?)
}

fn read_headers<'a>(films: impl Iterator<Item = &'a Generation>) -> Vec<(Generation, FilmHeader)> {
    films.filter_map(|one| Some((one.clone(), read_header(one).ok()?))).collect()
}

fn largest_blocks(films: &[(Generation, FilmHeader)]) -> u64 {
    films.iter().map(|(_, header)| header.totals.wanted_blocks()).max().unwrap_or_default()
}

fn find_alone(films: &[(Generation, FilmHeader)], blocks: u64) -> Option<&Generation> {
    let alike = films.iter().filter(|(_, header)| header.totals.wanted_blocks() as f64 >= blocks as f64 * WHOLE);
    let alone = alike.min_by_key(|(_, header)| (header.totals.is_preloaded(), header.totals.found_blocks()));
    alone.map(|(one, _)| one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::film::FilmWriter;
    use crate::trace::film::{Event, EventKind, Totals};
    use crate::trace::fixtures::{self, film_relation};
    use std::sync::Arc;

    #[test]
    fn the_newest_film_that_is_nearly_whole_is_taken() {
        let choose = |blocks: &[u64], of_day: Option<usize>| {
            choose(blocks.iter().enumerate().map(|(at, blocks)| (*blocks, Some(at) == of_day)))
        };
        assert_eq!(choose(&[10, 90, 100], None), Some(1));
        assert_eq!(choose(&[80, 90, 100], None), Some(0));
        assert_eq!(choose(&[80, 90, 100], Some(2)), Some(2), "of the same day of the week");
        assert_eq!(choose(&[10, 90, 100], Some(0)), Some(1), "if that is whole");
        assert_eq!(choose(&[0, 0], None), None);
        assert_eq!(choose(&[], None), None);
    }

    #[test]
    fn the_newest_is_that_of_this_cluster_or_of_all() {
        let directory = tempfile::tempdir().unwrap();
        let films = [("7", "20261125-081500.100.2"), ("7", "20261124-235900.100.1"), ("42", "20261125-020600.100.9")];
        for (cluster, name) in films {
            let cluster = directory.path().join(cluster);
            std::fs::create_dir_all(&cluster).unwrap();
            std::fs::write(cluster.join(format!("{name}.parquet")), "").unwrap();
        }
        let store = FilmStore::at(directory.path().to_owned());
        let names: Vec<String> = store.read_all().unwrap().films.into_iter().map(|one| one.name).collect();
        assert_eq!(names, [films[0].1, films[2].1, films[1].1]);
        let newest = |cluster| store.find_of(cluster, NEWEST).unwrap().file_stem().unwrap().to_owned();
        assert_eq!(newest(None), films[0].1);
        assert_eq!((newest(Some(7)), newest(Some(42))), (films[0].1.into(), films[2].1.into()));
        assert_eq!(newest(Some(8)), films[0].1, "none is of this one");
    }

    #[test]
    fn a_label_of_several_clusters_is_that_of_this_one_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let films = [
            (7, "20261125-081500.100.2-x"),
            (7, "20261124-235900.100.1-x"),
            (42, "20261125-020600.100.9-x"),
            (42, "20261125-020700.100.10-y"),
        ];
        for (cluster, name) in films {
            let cluster = directory.path().join(cluster.to_string());
            std::fs::create_dir_all(&cluster).unwrap();
            std::fs::write(cluster.join(format!("{name}.parquet")), "").unwrap();
        }
        let films = FilmStore::at(directory.path().to_owned()).read_all().unwrap();
        let found = |cluster, name: &str| {
            films.find_of(cluster, name).map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        };
        assert_eq!(found(Some(42), "x").unwrap(), "20261125-020600.100.9-x");
        assert_eq!(found(Some(7), "x").unwrap(), "20261125-081500.100.2-x");
        for cluster in [None, Some(8)] {
            let Err(Error::SeveralClusters { candidates, .. }) = found(cluster, "x") else { panic!("{cluster:?}") };
            assert_eq!(candidates, ["20261125-081500.100.2-x", "20261125-020600.100.9-x"]);
            assert_eq!(found(cluster, "y").unwrap(), "20261125-020700.100.10-y", "it is one cluster's");
        }
        assert_eq!(found(Some(7), "20261125-0206").unwrap(), "20261125-020600.100.9-x", "by its own name");
        let others = |cluster, label| films.find_other_clusters(cluster, label).map(|one| one.name.as_str());
        assert_eq!((others(7, "y"), others(42, "y")), (Some("20261125-020700.100.10-y"), None));
        assert_eq!((others(7, "x"), others(7, "z")), (None, None));
    }

    fn keep_film(store: &FilmStore, job: &str, label: &str, brought: u64, found: u64) -> PathBuf {
        let told = FilmHeader { job: job.into(), label: Some(label.into()), ..FilmHeader::for_tests() };
        let (draft, path) = store.begin(told.source.system_identifier, None).unwrap();
        let relation = film_relation(1);
        let fetched = found.max(brought);
        let events = [
            (0..brought, EventKind::Fetched, std::process::id()),
            (0..found, EventKind::Requested, 0),
            (fetched..100, EventKind::Fetched, 0),
        ];
        let events = events.into_iter().filter(|(blocks, ..)| !blocks.is_empty());
        let events = events.map(|(blocks, kind, pid)| Event { pid, ..fixtures::event(0, &relation, blocks, kind) });
        let writer = FilmWriter::begin(draft, &path).unwrap();
        store.place(fixtures::record(writer, &told, events), None).unwrap().0
    }

    #[test]
    fn the_film_of_a_job_that_was_not_helped_tells_how_it_goes_alone() {
        let directory = tempfile::tempdir().unwrap();
        let store = FilmStore::at(directory.path().to_owned());
        let cold = keep_film(&store, "psql -f a", "x", 0, 0);
        let warm = keep_film(&store, "psql -f a", "x", 0, 100);
        let helped = keep_film(&store, "psql -f a", "x", 60, 60);
        let alone = |name: &str| store.read_all().unwrap().find(None, name, true).unwrap();
        assert_eq!((alone("x").path, alone("x").films), (cold.clone(), 3));
        let told = alone("x").remark("x").unwrap();
        assert_eq!(
            told,
            "pgthaw chose this film among 3 films of this command named x: it was recorded with the fewest blocks already cached"
        );
        let newest = |name: &str| store.read_all().unwrap().find(None, name, false).unwrap();
        let own = helped.file_stem().unwrap().to_str().unwrap();
        assert_eq!(newest(own).remark(own), None);
        let newest = newest("x");
        assert_eq!((&newest.path, newest.films), (&helped, 3));
        assert!(newest.remark("x").unwrap().ends_with("named x: it is the newest"));
        assert_eq!((alone(NEWEST).path, alone(NEWEST).films), (helped.clone(), 1));
        assert_eq!((alone(own).path, alone(own).films), (helped.clone(), 1), "it is the one that was asked for");
        assert_eq!(alone(own).remark(own), None);
        let cluster = FilmHeader::for_tests().source.system_identifier;
        let like = || store.find_like(cluster, "x", "psql -f a", None).unwrap().films[0].path().to_owned();
        assert_eq!(like(), cold);
        std::fs::remove_file(&cold).unwrap();
        assert_eq!(alone("x").path, warm, "rather than the one that found less, for that was brought");
        assert_eq!(like(), warm);
        let other = keep_film(&store, "psql -f b", "x", 90, 0);
        assert_eq!((alone("x").path, alone("x").films), (other, 1), "of the newest command");
    }

    #[test]
    fn a_slip_is_another_command_that_touches_next_to_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let store = FilmStore::at(directory.path().to_owned());
        let film = keep_film(&store, "psql -f a", "x", 0, 0);
        let is_slip = |job: &str, fetched_blocks, label| {
            let totals = Totals { fetched_blocks, ..Totals::default() };
            let header = FilmHeader { job: job.into(), totals, ..FilmHeader::for_tests() };
            let lost = film.file_stem().unwrap().to_str();
            [None, lost].map(|lost| store.is_slip(&header, label, lost).unwrap())
        };
        assert_eq!(is_slip("psql -c 'SELECT 1'", 0, "x"), [true, false]);
        assert_eq!(is_slip("psql -f a", 0, "x"), [false, false], "on a warm server");
        assert_eq!(is_slip("psql -f b", 1, "x"), [false, false], "a small job");
        assert_eq!(is_slip("psql -c 'SELECT 1'", 0, "y"), [false, false], "there is no other");
    }

    #[test]
    fn a_damaged_film_gives_way_to_another_unless_it_was_named() {
        let directory = tempfile::tempdir().unwrap();
        let store = FilmStore::at(directory.path().to_owned());
        let [older, newest] = ["psql -f a"; 2].map(|job| keep_film(&store, job, "x", 0, 0));
        let mut bytes = std::fs::read(&newest).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&newest, bytes).unwrap();
        for name in ["x", NEWEST] {
            for alone in [false, true] {
                let (film, told) = store.open_sound(None, name, alone).unwrap();
                assert_eq!(film.path(), older, "{name}");
                assert!(told[0].contains("is damaged") && told[0].contains("was used instead"), "{told:?}");
            }
        }
        let own = newest.file_stem().unwrap().to_str().unwrap();
        for named in [own, newest.to_str().unwrap()] {
            assert!([false, true].iter().all(|alone| store.open_sound(None, named, *alone).unwrap_err().is_damage()));
        }
        std::fs::remove_file(&older).unwrap();
        assert!(store.open_sound(None, "x", false).unwrap_err().is_damage(), "there is no other");
    }

    #[test]
    fn databases_are_those_of_a_clusters_own_films() {
        let directory = tempfile::tempdir().unwrap();
        let store = FilmStore::at(directory.path().to_owned());
        let mut told = FilmHeader { label: Some("x".into()), ..FilmHeader::for_tests() };
        let mut keep = |cluster: u64, database: &str| {
            told.source.system_identifier = cluster;
            let (draft, path) = store.begin(cluster, None).unwrap();
            let mut relation = film_relation(1);
            Arc::make_mut(&mut relation).name.database = database.into();
            let writer = FilmWriter::begin(draft, &path).unwrap();
            let event = fixtures::event(0, &relation, 0..1, EventKind::Fetched);
            store.place(fixtures::record(writer, &told, [event]), None).unwrap();
        };
        let like = |label: &str| Which::Like(label.to_owned());
        assert_eq!((store.databases(&like("x"), 7), store.first_database(&like("x"))), (None, None));
        keep(7, "shop");
        assert_eq!(store.databases(&like("x"), 7).unwrap(), ["shop"]);
        assert_eq!((store.databases(&like("x"), 8), store.databases(&like("y"), 7)), (None, None), "nobody knows");
        assert_eq!(store.first_database(&like("x")).unwrap(), "shop");
        keep(8, "stock");
        assert_eq!(
            (store.databases(&like("x"), 8).unwrap(), store.first_database(&like("x"))),
            (vec!["stock".into()], None)
        );
        keep(7, "stock");
        assert_eq!(store.databases(&like("x"), 7).unwrap(), ["stock", "shop"]);
        assert_eq!(store.first_database(&like("x")).unwrap(), "stock");
        [7, 8].into_iter().for_each(|cluster| keep(cluster, "16384"));
        assert_eq!(store.databases(&like("x"), 8).unwrap(), ["16384", "stock"]);
        assert_eq!(store.first_database(&like("x")), None);
    }

    #[test]
    fn what_tells_how_a_job_goes_alone_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let store = FilmStore::at(directory.path().to_owned());
        let films: Vec<PathBuf> =
            (0..KEPT + 3).map(|at| keep_film(&store, "psql", "x", if at == 1 { 0 } else { 60 }, 0)).collect();
        store.prune(FilmHeader::for_tests().source.system_identifier, "x", None).unwrap();
        let kept: Vec<usize> = (0..films.len()).filter(|at| films[*at].exists()).collect();
        assert_eq!(kept, (0..films.len()).filter(|at| *at != 2 && *at != 0).collect::<Vec<usize>>());
    }

    #[test]
    fn of_the_newest_command_too_what_tells_how_it_goes_alone_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let store = FilmStore::at(directory.path().to_owned());
        let cold = keep_film(&store, "psql -f a", "x", 0, 50);
        keep_film(&store, "psql -f b", "x", 0, 0);
        (0..KEPT).for_each(|_| _ = keep_film(&store, "psql -f a", "x", 60, 0));
        let cluster = FilmHeader::for_tests().source.system_identifier;
        store.prune(cluster, "x", None).unwrap();
        assert!(cold.exists());
        assert_eq!(store.read_all().unwrap().find(None, "x", true).unwrap().path, cold);
        store.prune(cluster, "x", cold.file_stem().unwrap().to_str()).unwrap();
        assert!(!cold.exists(), "most of it is not there any more");
    }

    #[test]
    fn a_command_that_differs_by_its_day_is_more_alike_than_another() {
        let told = |day: u32| {
            likeness(&format!("psql -v day=2026-11-{day} -f report.sql"), "psql -v day=2026-11-25 -f report.sql")
        };
        assert_eq!(told(25), 1.0);
        assert!(told(24) > 0.5 && told(24) > likeness("psql -f another.sql", "psql -v day=2026-11-25 -f report.sql"));
        assert_eq!(likeness("", ""), 0.0);
    }
}

#[cfg(test)]
mod choice_tests {
    use super::*;

    #[test]
    fn which_was_taken_is_told_where_there_was_a_choice() {
        let of = |films, has_others| Chosen { path: "f".into(), films, alone: false, has_others };
        assert_eq!(of(1, false).remark("x"), None);
        assert!(of(1, true).remark("x").unwrap().ends_with("of other clusters were skipped"));
        assert!(of(2, true).remark("x").unwrap().contains("is the newest; those of other clusters"));
    }
}
