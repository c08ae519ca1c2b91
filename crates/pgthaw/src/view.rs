//! Which relations of a map are shown, and how: for `map` and `snapshot show`.

use clap::{Args, ValueEnum};

use super::OutputArguments;
use crate::map::map_json::render_map_json;
use crate::map::map_text::MapView;
use crate::map::map_text::render_map;
use cache::{Map, RolledUp, Selection};
use terminal::Canvas;

/// Which relations, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct ViewArguments {
    #[command(flatten)]
    selection: SelectionArguments,

    /// The largest N; 0 for all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// What a row stands for: a table with its indexes and TOAST, of a partitioned one with all partitions; a table or partition
    /// with its indexes and TOAST; each relation by itself; or each fork of each relation [default: table, with --json relation]
    #[arg(long, value_name = "WHAT")]
    by: Option<ByArgument>,

    /// Show system catalogs one by one
    #[arg(long)]
    pub system: bool,
}

/// What a row stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ByArgument {
    #[default]
    Table,
    Partition,
    Relation,
    Fork,
}

impl From<ByArgument> for RolledUp {
    fn from(by: ByArgument) -> RolledUp {
        match by {
            ByArgument::Table => RolledUp::ToTable,
            ByArgument::Partition => RolledUp::ToPartition,
            ByArgument::Relation | ByArgument::Fork => RolledUp::Not,
        }
    }
}

/// Which relations.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArguments {
    /// This relation, with the indexes and the TOAST of a table and the partitions of a partitioned one; as SQL and psql's \d
    /// take it: orders, public.orders, shop.public.orders, '"Odd Name"', 'sal*.*', 'orders_202?'; may be repeated
    #[arg(short, long = "relation", value_name = "NAME")]
    relations: Vec<String>,

    /// The relations of this schema, or of those of a pattern: sales, 'sal*'
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
        let canvas = Canvas { height: None, ..Canvas::of_stdout(false) };
        terminal::print_line(&self.render(map, None, canvas)?);
        Ok(())
    }

    /// The map as text, with what changed since the look before.
    pub fn render(&self, map: &Map, before: Option<&Map>, canvas: Canvas) -> anyhow::Result<String> {
        let places = self.select(map)?;
        let view = MapView {
            before,
            top: self.top.unwrap_or(20),
            rolled_up: self.by.unwrap_or_default().into(),
            with_forks: self.by == Some(ByArgument::Fork),
            with_system: self.shows_system(),
        };
        Ok(render_map(map, &places, view, canvas))
    }

    /// The places of the relations that are meant.
    pub fn select(&self, map: &Map) -> anyhow::Result<Vec<usize>> {
        Ok(map.select(&self.selection.selection())?)
    }

    /// Who asks for relations by name wants to see them, catalogs or not.
    fn shows_system(&self) -> bool {
        self.system || self.selection.selection() != Selection::default()
    }

    /// The map for programs.
    pub fn render_json(&self, map: &Map) -> anyhow::Result<serde_json::Value> {
        let places = self.select(map)?;
        let rolled_up = self.by.unwrap_or(ByArgument::Relation).into();
        Ok(render_map_json(map, &places, rolled_up, self.top.unwrap_or(0)))
    }
}
