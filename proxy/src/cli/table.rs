//! Text in columns: as wide as their widest cell, two spaces apart, nothing behind the last.

/// Lines of equally many cells, the heads first.
pub fn align<const COLUMNS: usize>(lines: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}
