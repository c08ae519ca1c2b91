//! Which relations of a map are shown, and how: for `map` and `snapshot show`.

use clap::Args;

use super::OutputArguments;
use crate::cache::{Map, Selection};
use crate::terminal::{self, Canvas, MapView};

/// Which relations, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct ViewArguments {
    #[command(flatten)]
    selection: SelectionArguments,

    /// The largest N; 0 for all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// A row for each fork
    #[arg(long)]
    forks: bool,

    /// Show system catalogs one by one
    #[arg(long)]
    system: bool,

    /// Draw with ASCII characters alone, as in a locale that is not UTF-8
    #[arg(long)]
    pub ascii: bool,
}

/// Which relations.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArguments {
    /// This relation, with the indexes and the TOAST of a table; `schema.name` or `name`, * for any characters; may be
    /// repeated
    #[arg(short, long = "relation", value_name = "NAME")]
    relations: Vec<String>,

    /// The relations of this schema
    #[arg(short = 'n', long, value_name = "NAME")]
    schema: Option<String>,
}

impl SelectionArguments {
    /// What the arguments mean.
    pub fn selection(&self) -> Selection {
        Selection { relations: self.relations.clone(), schema: self.schema.clone() }
    }
}

impl ViewArguments {
    /// Prints the map once, as high as it is.
    pub fn print(&self, map: &Map, output: OutputArguments) -> anyhow::Result<()> {
        if output.json {
            return Ok(terminal::print_json(&self.render_json(map)?)?);
        }
        let canvas = Canvas { height: None, ..Canvas::of_stdout(self.ascii) };
        terminal::print_line(&self.render(map, canvas)?);
        Ok(())
    }

    /// The map as text.
    pub fn render(&self, map: &Map, canvas: Canvas) -> anyhow::Result<String> {
        let selection = self.selection.selection();
        let places = selection.find(map.relations.iter().map(|one| &one.relation))?;
        let view = MapView {
            top: self.top.unwrap_or(20),
            with_forks: self.forks,
            with_system: self.system || selection != Selection::default(),
        };
        Ok(terminal::render_map(map, &places, view, canvas))
    }

    /// The map for programs.
    pub fn render_json(&self, map: &Map) -> anyhow::Result<serde_json::Value> {
        let places = self.selection.selection().find(map.relations.iter().map(|one| &one.relation))?;
        Ok(terminal::render_map_json(map, &places, self.top.unwrap_or(0)))
    }
}
