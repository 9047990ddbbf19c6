//! A table with small, reused row numbers.

/// Rows by number; a freed number is used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, row: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.rows[slot as usize] = Some(row);
            return slot;
        }
        self.rows.push(Some(row));
        (self.rows.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let row = self.rows.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(row)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.rows.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.rows.get_mut(slot as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.rows
            .iter()
            .enumerate()
            .filter_map(|(slot, row)| Some((slot as u32, row.as_ref()?)))
    }
}
