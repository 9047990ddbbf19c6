//! Tables: one line an object, columns as wide as they must be.

use crate::terminal::{Colour, neutral};

/// Space between columns.
const GAP: usize = 3;

/// One field of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl Cell {
    /// A field in the terminal's own colour; an empty one shows as `-`, so that columns can be counted.
    pub(crate) fn new(text: impl ToString) -> Self {
        let text = neutral(&text.to_string());
        Self {
            text: if text.is_empty() { "-".to_owned() } else { text },
            colour: None,
        }
    }

    /// The same field with a colour.
    pub(crate) fn coloured(self, colour: Option<Colour>) -> Self {
        Self { colour, ..self }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::new(number)
    }
}

/// A header and rows of as many cells.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    header: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new<T: ToString>(header: impl IntoIterator<Item = T>) -> Self {
        Self {
            header: header.into_iter().map(Cell::new).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.header.len(), "a row has one cell for each column");
        self.rows.push(cells);
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<Cell>> {
        std::iter::once(&self.header).chain(&self.rows)
    }

    fn column_widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.header.len()];
        for line in self.lines() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.width().max(*width);
            }
        }
        widths
    }

    /// Columns that are left of a line of `width` for one more column.
    pub(crate) fn room(&self, width: usize) -> usize {
        let taken: usize = self.column_widths().iter().map(|column| column + GAP).sum();
        width.saturating_sub(taken)
    }

    /// Adds a column at the right.
    pub(crate) fn column(&mut self, title: &str, cells: impl IntoIterator<Item = Cell>) {
        self.header.push(Cell::new(title));
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }

    /// The table as text, each line ended.
    pub(crate) fn render(&self, colour: bool) -> String {
        let widths = self.column_widths();
        let mut text = String::new();
        for line in self.lines() {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                match cell.colour.filter(|_| colour) {
                    Some(paint) => text.push_str(&paint.paint(&cell.text)),
                    None => text.push_str(&cell.text),
                }
                if column + 1 < line.len() {
                    text.extend(std::iter::repeat_n(' ', width - cell.width() + GAP));
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_are_harmless() {
        let mut table = Table::new(vec!["Name", "State", "N"]);
        table.row(vec![
            "a".into(),
            Cell::new("Open").coloured(Some(Colour::Green)),
            1.into(),
        ]);
        table.row(vec!["long-name".into(), "".into(), 100.into()]);
        table.row(vec!["\u{1b}[2J\n".into(), "größe".into(), 0.into()]);
        let plain = "Name             State   N\n\
                     a                Open    1\n\
                     long-name        -       100\n\
                     \\u{1b}[2J\\u{a}   größe   0\n";
        assert_eq!(table.render(false), plain);
        assert_eq!(table.render(true), plain.replace("Open", "\u{1b}[32mOpen\u{1b}[0m"));
    }
}
