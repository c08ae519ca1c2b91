//! The residency bar: where in a relation the warm parts are.

use console::{Color, Style};

use cache::{BarCell, Map, TierState};
use terminal::Canvas;

/// A cell mostly in shared_buffers: by how much of it is warm.
const BUFFERS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BUFFERS_ASCII: [char; 3] = ['o', 'O', '#'];

/// A cell mostly in the OS page cache alone: likewise.
const OS: [char; 3] = ['░', '▒', '▓'];
const OS_ASCII: [char; 3] = ['-', '~', '='];

const COLD: char = '·';
const COLD_ASCII: char = '.';

/// Not in the tier that was seen; the other may hold it.
const UNKNOWN: char = '?';

/// Which tiers were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub os: bool,
    pub buffers: bool,
}

impl Seen {
    pub fn of(map: &Map) -> Seen {
        Seen { os: map.os == TierState::Measured, buffers: map.buffers == TierState::Measured }
    }

    fn is_all(self) -> bool {
        self.os && self.buffers
    }
}

/// What a cell is drawn for: the tier that holds most of what is warm in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellLook {
    Cold,
    Unknown,
    Os,
    Buffers,
}

impl CellLook {
    fn of(cell: BarCell, seen: Seen) -> CellLook {
        match cell {
            BarCell { any: 0.0, .. } if seen.is_all() => CellLook::Cold,
            BarCell { any: 0.0, .. } => CellLook::Unknown,
            _ if cell.buffers * 2.0 >= cell.any => CellLook::Buffers,
            _ => CellLook::Os,
        }
    }

    fn style(self) -> Style {
        match self {
            CellLook::Cold | CellLook::Unknown => Style::new().dim(),
            CellLook::Os => Style::new().fg(Color::Cyan),
            CellLook::Buffers => Style::new().fg(Color::Yellow),
        }
    }
}

/// The bar. A cell's glyph and colour tell the tier, its height or density how much of it is warm in either tier.
pub fn render_bar(cells: &[BarCell], seen: Seen, canvas: Canvas) -> String {
    let run = |(look, glyphs): (CellLook, String)| match canvas.colours {
        true => look.style().force_styling(true).apply_to(glyphs).to_string(),
        false => glyphs,
    };
    render_bar_runs(cells, seen, canvas.unicode).into_iter().map(run).collect()
}

/// The bar in pieces that look alike.
fn render_bar_runs(cells: &[BarCell], seen: Seen, unicode: bool) -> Vec<(CellLook, String)> {
    let look = |cell: &BarCell| CellLook::of(*cell, seen);
    let run = |cells: &[BarCell]| {
        let glyphs = cells.iter().map(|cell| glyph(*cell, look(cell), unicode)).collect();
        Some((look(cells.first()?), glyphs))
    };
    cells.chunk_by(|one, other| look(one) == look(other)).filter_map(run).collect()
}

/// What the glyphs mean, in two lines: of the tiers that were seen.
pub fn render_legend(seen: Seen, canvas: Canvas) -> String {
    let growing = |os: f64, buffers: f64| {
        let cells = [0.3, 0.6, 1.0].map(|any| BarCell { os: os * any, buffers: buffers * any, any });
        render_bar(&cells, seen, canvas)
    };
    let nothing = render_bar(&[BarCell::default()], seen, canvas);
    let nothing = match seen {
        Seen { os: true, buffers: true } => format!("{nothing} cold"),
        Seen { os: true, buffers: false } => format!("{nothing} not in it, shared_buffers not seen"),
        Seen { os: false, buffers: true } => format!("{nothing} not in them, OS page cache not seen"),
        Seen { os: false, buffers: false } => format!("{nothing} not seen"),
    };
    let buffers = seen.buffers.then(|| format!("{} shared_buffers", growing(0.0, 1.0)));
    let os = seen.os.then(|| format!("{} OS page cache", growing(1.0, 0.0)));
    let glyphs: Vec<String> = buffers.into_iter().chain(os).chain([nothing]).collect();
    let order = "from the first block to the last; the fuller, the more of a part is warm";
    format!("{}\n{order}", glyphs.join("  "))
}

fn glyph(cell: BarCell, look: CellLook, unicode: bool) -> char {
    match (look, unicode) {
        (CellLook::Unknown, _) => UNKNOWN,
        (CellLook::Cold, true) => COLD,
        (CellLook::Cold, false) => COLD_ASCII,
        (CellLook::Os, true) => step(&OS, cell.any),
        (CellLook::Os, false) => step(&OS_ASCII, cell.any),
        (CellLook::Buffers, true) => step(&BUFFERS, cell.any),
        (CellLook::Buffers, false) => step(&BUFFERS_ASCII, cell.any),
    }
}

/// The glyph of a ratio above 0: the last one is for 1 alone.
fn step(glyphs: &[char], ratio: f64) -> char {
    let place = (ratio * (glyphs.len() - 1) as f64).floor() as usize;
    glyphs[place.min(glyphs.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Canvas = Canvas { width: None, height: None, colours: false, unicode: true };

    const BOTH: Seen = Seen { os: true, buffers: true };

    fn cells() -> Vec<BarCell> {
        let cell = |os: f64, buffers: f64, any: f64| BarCell { os, buffers, any };
        vec![
            cell(0.0, 0.0, 0.0),
            cell(0.001, 0.0, 0.001),
            cell(0.5, 0.0, 0.5),
            cell(1.0, 0.4, 1.0),
            cell(1.0, 0.5, 1.0),
            cell(0.0, 0.01, 0.01),
            cell(0.0, 0.99, 0.99),
        ]
    }

    #[test]
    fn glyphs_tell_the_tiers_apart() {
        assert_eq!(render_bar(&cells(), BOTH, PLAIN), "·░▒▓█▁▇");
        assert_eq!(render_bar(&cells(), BOTH, Canvas { unicode: false, ..PLAIN }), ".-~=#oO");
    }

    #[test]
    fn what_was_not_seen_is_not_called_cold() {
        let os_alone = Seen { os: true, buffers: false };
        assert_eq!(render_bar(&cells()[..3], os_alone, PLAIN), "?░▒");
        let legend = render_legend(os_alone, PLAIN);
        assert!(legend.contains("░▒▓ OS page cache  ? not in it") && !legend.contains("cold"), "{legend}");
        assert!(render_legend(BOTH, PLAIN).contains("▃▅█ shared_buffers"), "{}", render_legend(BOTH, PLAIN));
    }

    #[test]
    fn colours_tell_them_apart_too_and_change_no_glyph() {
        let coloured = render_bar(&cells(), BOTH, Canvas { colours: true, ..PLAIN });
        assert_eq!(console::strip_ansi_codes(&coloured), "·░▒▓█▁▇");
        assert_eq!(coloured.matches("\x1b[36m").count(), 1);
        assert_eq!(coloured.matches("\x1b[33m").count(), 1);
    }
}
