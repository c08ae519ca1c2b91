//! The residency bar: where in a relation the warm parts are.

use console::{Color, Style};

use super::screen::Canvas;
use crate::cache::BarCell;

/// A cell mostly in shared_buffers: by how much of it is warm.
const BUFFERS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BUFFERS_ASCII: [char; 3] = ['o', 'O', '#'];

/// A cell mostly in the OS page cache alone: likewise.
const OS: [char; 3] = ['░', '▒', '▓'];
const OS_ASCII: [char; 3] = ['-', '~', '='];

const COLD: char = '·';
const COLD_ASCII: char = '.';

/// What a cell is drawn for: the tier that holds most of what is warm in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Cold,
    Os,
    Buffers,
}

impl Look {
    fn of(cell: BarCell) -> Look {
        match cell {
            BarCell { any: 0.0, .. } => Look::Cold,
            _ if cell.buffers * 2.0 >= cell.any => Look::Buffers,
            _ => Look::Os,
        }
    }

    fn style(self) -> Style {
        match self {
            Look::Cold => Style::new().dim(),
            Look::Os => Style::new().fg(Color::Cyan),
            Look::Buffers => Style::new().fg(Color::Yellow),
        }
    }
}

/// The bar. A cell's glyph and colour tell the tier, its height or density how much of it is warm in either tier.
pub fn render_bar(cells: &[BarCell], canvas: Canvas) -> String {
    let runs = cells.chunk_by(|one, other| Look::of(*one) == Look::of(*other));
    let run = |cells: &[BarCell]| {
        let glyphs: String = cells.iter().map(|cell| glyph(*cell, canvas.unicode)).collect();
        match cells.first() {
            Some(first) if canvas.colours => Look::of(*first).style().force_styling(true).apply_to(glyphs).to_string(),
            _ => glyphs,
        }
    };
    runs.map(run).collect()
}

/// What the glyphs mean.
pub fn render_legend(canvas: Canvas) -> String {
    let full = |os, buffers| render_bar(&[BarCell { os, buffers, any: f64::max(os, buffers) }], canvas);
    format!(
        "{} shared_buffers  {} OS page cache  {} cold, from the first block to the last",
        full(0.0, 1.0),
        full(1.0, 0.0),
        full(0.0, 0.0)
    )
}

fn glyph(cell: BarCell, unicode: bool) -> char {
    match (Look::of(cell), unicode) {
        (Look::Cold, true) => COLD,
        (Look::Cold, false) => COLD_ASCII,
        (Look::Os, true) => step(&OS, cell.any),
        (Look::Os, false) => step(&OS_ASCII, cell.any),
        (Look::Buffers, true) => step(&BUFFERS, cell.any),
        (Look::Buffers, false) => step(&BUFFERS_ASCII, cell.any),
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
        assert_eq!(render_bar(&cells(), PLAIN), "·░▒▓█▁▇");
        assert_eq!(render_bar(&cells(), Canvas { unicode: false, ..PLAIN }), ".-~=#oO");
    }

    #[test]
    fn colours_tell_them_apart_too_and_change_no_glyph() {
        let coloured = render_bar(&cells(), Canvas { colours: true, ..PLAIN });
        assert_eq!(console::strip_ansi_codes(&coloured), "·░▒▓█▁▇");
        assert_eq!(coloured.matches("\x1b[36m").count(), 1);
        assert_eq!(coloured.matches("\x1b[33m").count(), 1);
    }
}
