//! Every n-th block of a table: how several readers divide one file.

use super::{Column, DataError, TableReader, Visit};

/// The blocks of a table whose number leaves a given rest.
pub struct Stripe {
    table: Box<dyn TableReader>,
    rest: usize,
    of: usize,
}

impl Stripe {
    /// Number `rest`, from 0, of `of` stripes; together they are the table, and each reads through all of it.
    pub fn new(table: Box<dyn TableReader>, rest: usize, of: usize) -> Self {
        Self { table, rest, of: of.max(1) }
    }
}

impl TableReader for Stripe {
    fn name(&self) -> String {
        self.table.name()
    }

    fn columns(&self) -> &[Column] {
        self.table.columns()
    }

    fn quotes_join_lines(&self) -> bool {
        self.table.quotes_join_lines()
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        let mut rows = 0;
        self.for_each_block(&mut |block| {
            rows += block.len() as u64;
            Ok(())
        })?;
        Ok(rows)
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        let mut number = 0;
        self.table.for_each_block(&mut |block| {
            let own = number % self.of == self.rest;
            number += 1;
            if own { visit(block) } else { Ok(()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, ReadOptions, open_bytes};
    use super::*;

    #[test]
    fn stripes_together_are_the_table() {
        let text = (0..20_000).fold(String::from("a\n"), |text, i| text + &format!("{i}\n"));
        let opened = || open_bytes(text.clone().into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        for of in [1, 2, 7, 30] {
            let stripes: Vec<Stripe> = (0..of).map(|rest| Stripe::new(opened(), rest, of)).collect();
            let mut seen = vec![0; 20_000];
            for stripe in &stripes {
                assert_eq!(stripe.columns(), opened().columns());
                stripe
                    .for_each_block(&mut |block| {
                        (0..block.len()).for_each(|row| seen[block.first_row() as usize + row] += 1);
                        Ok(())
                    })
                    .unwrap();
            }
            assert!(seen.iter().all(|&times| times == 1), "{of}");
            assert_eq!(stripes.iter().map(|stripe| stripe.count_rows().unwrap()).sum::<u64>(), 20_000);
        }
    }
}
