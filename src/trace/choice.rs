//! Which film of a store a name means.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Error;
use super::film::FilmHeader;
use crate::cache::{Generation, NEWEST, find_by_beginning, is_path};

/// A film with this share of the blocks of the largest is as good as that: 0 to 1.
pub(super) const WHOLE: f64 = 0.8;

/// The films of a store, as they were when it was read.
#[derive(Clone, Debug)]
pub struct Films {
    root: PathBuf,
    /// The newest first.
    pub films: Vec<Generation>,
}

/// The film that a name means.
#[derive(Debug)]
pub struct Chosen {
    pub path: PathBuf,
    /// Films of its command that the name could mean, this one among them.
    pub films: usize,
    /// Why it was this one of them, in words.
    why: &'static str,
    /// Other clusters have films that are called so too.
    has_others: bool,
}

const NEWEST_OF_THEM: &str = "is the newest";
const TELLS_ALONE: &str = "tells best how the job goes alone";

impl Chosen {
    /// Which of how many was taken, where there was a choice.
    pub fn remark(&self, name: &str) -> Option<String> {
        let Chosen { films, why, has_others, .. } = self;
        let of_others = if *has_others { "; those of other clusters were passed over" } else { "" };
        match films {
            1 => has_others.then(|| format!("this film called {name} is of this server's cluster{of_others}")),
            _ => Some(format!("of {films} films of this command called {name} this one {why}{of_others}")),
        }
    }
}

impl Films {
    pub(super) fn new(root: PathBuf, films: Vec<Generation>) -> Films {
        Films { root, films }
    }

    /// Is one kept under this name?
    pub fn has_label(&self, label: &str) -> bool {
        self.films.iter().any(|one| one.label() == Some(label))
    }

    /// The file that `name` means: a path, `newest`, a label's newest, or the beginning of a name. Those of this cluster come before those
    /// of others.
    ///
    /// # Errors
    /// When there is none, or it could be several: by the beginnings of their names, or as a label of several clusters that are not this one.
    pub fn find_of(&self, cluster: Option<u64>, name: &str) -> Result<PathBuf, Error> {
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

    /// Of each cluster that has films under this label the newest.
    pub(super) fn newest_of_clusters(&self, label: &str) -> impl Iterator<Item = &Generation> {
        let mut clusters = BTreeSet::new();
        let is_newest = move |one: &&Generation| one.label() == Some(label) && clusters.insert(one.system_identifier);
        self.films.iter().filter(is_newest)
    }

    /// The newest film under a label, if all are of other clusters than this one.
    pub fn find_other_clusters(&self, cluster: u64, label: &str) -> Option<&Generation> {
        let mut films = self.films.iter().filter(|one| one.label() == Some(label));
        let newest = films.next()?;
        (newest.system_identifier != cluster && films.all(|one| one.system_identifier != cluster)).then_some(newest)
    }

    /// Leaves out a film, and those of other clusters: they are no replacement for it.
    pub(super) fn leave_out(&mut self, path: &Path) {
        let cluster = self.films.iter().find(|one| one.path == path).map(|one| one.system_identifier);
        self.films.retain(|one| one.path != path && Some(one.system_identifier) == cluster);
    }

    /// Is this film one of those that `name` could mean, [`NEWEST`] or a label, and not named itself?
    pub(super) fn could_be_another(&self, path: &Path, name: &str) -> bool {
        let is_label = |one: &Generation| one.path == path && one.label() == Some(name);
        !is_path(name) && (name == NEWEST || self.films.iter().any(is_label))
    }

    /// As [`Films::find_of`], but where `name` is a label that film of its newest command which tells best how the job goes alone, of
    /// those that know what it asked for.
    pub fn find_alone(&self, cluster: Option<u64>, name: &str) -> Result<Chosen, Error> {
        let path = self.find_of(cluster, name)?;
        let mut films = self.read_alike(&path, name);
        let (count, has_others) = (films.len().max(1), self.has_others(&films, name));
        films.retain(|(_, header)| header.sampling.is_some());
        let alone = find_alone(&films, largest_blocks(&films)).map_or(path, |one| one.path.clone());
        Ok(Chosen { path: alone, films: count, why: TELLS_ALONE, has_others })
    }

    /// As [`Films::find_of`], with how many there were to choose from.
    pub fn find_newest(&self, cluster: Option<u64>, name: &str) -> Result<Chosen, Error> {
        let path = self.find_of(cluster, name)?;
        let films = self.read_alike(&path, name);
        let has_others = self.has_others(&films, name);
        Ok(Chosen { path, films: films.len().max(1), why: NEWEST_OF_THEM, has_others })
    }

    /// Are there films under this label of other clusters than of this one's?
    fn has_others(&self, films: &[(Generation, FilmHeader)], label: &str) -> bool {
        !films.is_empty() && self.newest_of_clusters(label).count() > 1
    }

    /// The films of the command of this one, which `name` means, that are called so; none where it is no label.
    fn read_alike(&self, path: &Path, name: &str) -> Vec<(Generation, FilmHeader)> {
        let is_meant = |one: &&Generation| one.path == path && one.label() == Some(name) && name != NEWEST;
        let Some(newest) = self.films.iter().find(is_meant) else { return Vec::new() };
        let is_like =
            |one: &&Generation| one.label() == newest.label() && one.system_identifier == newest.system_identifier;
        let mut films: Vec<(Generation, FilmHeader)> = read_headers(self.films.iter().filter(is_like));
        let job = films.first().map(|(_, header)| header.job.clone());
        films.retain(|(_, header)| Some(&header.job) == job.as_ref());
        films
    }
}

/// What a film in the store says of itself; its file may be damaged.
pub(super) fn read_header(one: &Generation) -> Result<FilmHeader, Error> {
    one.require_file()?;
    FilmHeader::read_unverified(&one.path)
}

/// What can be read of films.
pub(super) fn read_headers<'a>(films: impl Iterator<Item = &'a Generation>) -> Vec<(Generation, FilmHeader)> {
    films.filter_map(|one| Some((one.clone(), read_header(one).ok()?))).collect()
}

pub(super) fn largest_blocks(films: &[(Generation, FilmHeader)]) -> u64 {
    films.iter().map(|(_, header)| header.totals.wanted_blocks()).max().unwrap_or_default()
}

/// Of films as large as one of so many blocks the one that tells best how the job goes alone.
pub(super) fn find_alone(films: &[(Generation, FilmHeader)], blocks: u64) -> Option<&Generation> {
    let alike = films.iter().filter(|(_, header)| header.totals.wanted_blocks() as f64 >= blocks as f64 * WHOLE);
    let alone = alike.min_by_key(|(_, header)| (header.totals.is_preloaded(), header.totals.found_blocks()));
    alone.map(|(one, _)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_was_taken_is_told_where_there_was_a_choice() {
        let of = |films, has_others| Chosen { path: "f".into(), films, why: NEWEST_OF_THEM, has_others };
        assert_eq!(of(1, false).remark("x"), None);
        assert!(of(1, true).remark("x").unwrap().ends_with("of other clusters were passed over"));
        assert!(of(2, true).remark("x").unwrap().contains("is the newest; those of other clusters"));
    }
}
