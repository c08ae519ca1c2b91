//! The files of a study as they were when it was read: what is measured does not change when somebody edits them meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::files::read_at_most;
use crate::postgres::{Load, SCRIPT_BYTES_MAX, Script};
use crate::study::{Sweep, render_digest};

/// Copies of the scripts, by the files that they are of. Each has its file's name, by which its figures are kept.
#[derive(Debug)]
pub struct ScriptCopies(BTreeMap<PathBuf, PathBuf>);

impl ScriptCopies {
    /// Copies every script of the study below `directory`.
    pub fn make(sweep: &Sweep, directory: &Path) -> Result<ScriptCopies, Error> {
        let file = |script: &(Script, u32)| match &script.0 {
            Script::File(path) => Some(path.clone()),
            Script::Builtin(_) => None,
        };
        let files: BTreeSet<PathBuf> = sweep.scripts.values().flatten().filter_map(file).collect();
        let copy = |(number, path): (usize, PathBuf)| {
            let content = read_unchanged(sweep, &path)?;
            // Of two directories there may be files of one name.
            let place = directory.join(format!("scripts-{number}"));
            std::fs::create_dir_all(&place).map_err(|source| Error::file("create", &place, source))?;
            let kept = place.join(path.file_name().unwrap_or_default());
            std::fs::write(&kept, content).map_err(|source| Error::file("write", &kept, source))?;
            Ok((path, kept))
        };
        files.into_iter().enumerate().map(copy).collect::<Result<_, Error>>().map(ScriptCopies)
    }

    /// The same load by the copies.
    pub fn of(&self, load: &Load) -> Load {
        let kept = |script: &Script| match script {
            Script::File(path) => Script::File(self.0.get(path).unwrap_or(path).clone()),
            builtin => builtin.clone(),
        };
        let scripts = load.scripts.iter().map(|(script, weight)| (kept(script), *weight));
        Load { scripts: scripts.collect(), ..load.clone() }
    }
}

/// What a file of the study says. An error when that is no longer what it said when the study was read, by which the study is
/// known.
pub fn read_unchanged(sweep: &Sweep, path: &Path) -> Result<Vec<u8>, Error> {
    let Some(digest) = sweep.contents.get(path) else { return Ok(Vec::new()) };
    let content = read_at_most(path, SCRIPT_BYTES_MAX).map_err(|source| Error::file("read", path, source))?;
    match render_digest(&content) == *digest {
        true => Ok(content),
        false => {
            Err(Error::Setting(format!("{} was changed since the study was read: start it again", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sweep::spec::tests::sweep;

    #[test]
    fn what_is_edited_meanwhile_is_not_measured() {
        let directory = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        let script = directory.path().canonicalize().unwrap().join("one.sql");
        std::fs::write(&script, "SELECT 1;").unwrap();
        let study =
            sweep(&format!("[points]\nscript = {{ \"{}\" = 2, select-only = 1 }}\n", script.display())).unwrap();
        let copies = ScriptCopies::make(&study, directory.path()).unwrap();
        std::fs::write(&script, "SELECT 2;").unwrap();
        let load = study.load(&study.point(0));
        let kept = copies.of(&load);
        let names = |load: &Load| load.scripts.iter().map(|(script, _)| script.name()).collect::<Vec<_>>();
        assert_eq!(names(&kept), names(&load));
        let texts = kept.scripts.iter().filter_map(|(script, _)| match script {
            Script::File(path) => Some(std::fs::read_to_string(path).unwrap()),
            Script::Builtin(_) => None,
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["SELECT 1;"]);
        let changed = read_unchanged(&study, &script).unwrap_err().to_string();
        assert!(changed.contains("one.sql was changed"), "{changed}");
        assert_eq!(ScriptCopies::make(&study, directory.path()).unwrap_err().to_string(), changed);
    }
}
