//! `weir check`: everything that is wrong with a configuration, and what holds where it says nothing.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use super::admin::AdminArguments;
use super::locality::LocalityArguments;
use super::summary::{Extent, summary};
use crate::runtime::config_files::FilesError;
use crate::runtime::l4::L4Mode;
use crate::runtime::reload::{Standpoint, count, load};

/// Check a configuration: print every problem with file, line, column, key and remedy
///
/// Ends with status 1 if there are errors. Without any it prints what would be served, and the defaults in effect.
// Made up by clap, it would list whatever variables of the environment give values to.
#[derive(Clone, Debug, Args)]
#[command(override_usage = "weir check [OPTIONS] <FILE|DIR>")]
pub struct CheckOptions {
    /// File, or directory of .yaml, .yml and .json files
    #[arg(value_name = "FILE|DIR", required_unless_present = "config")]
    path: Option<PathBuf>,

    /// The same, as `weir run` is told it
    #[arg(long, value_name = "FILE|DIR", env = "WEIR_CONFIG")]
    config: Option<PathBuf>,

    /// List all endpoints of each backend, not only the first ones
    #[arg(long)]
    all: bool,

    /// Who is to serve TCP and UDP listeners
    #[arg(long, value_enum, default_value_t, env = "WEIR_L4")]
    l4: L4Mode,

    #[command(flatten)]
    locality: LocalityArguments,

    #[command(flatten)]
    admin: AdminArguments,
}

/// What a check has to say.
pub struct Report {
    /// One a line.
    pub problems: String,
    /// What would be served; `None` if nothing would.
    pub summary: Option<String>,
}

impl CheckOptions {
    pub fn report(&self) -> Result<Report, FilesError> {
        let path = self.path.as_ref().or(self.config.as_ref());
        let path = path.expect("the command line demands one of them");
        let locality = self.locality.known();
        let standpoint = Standpoint {
            locality: locality.as_ref(),
            admin: &self.admin.addresses(),
            l4: self.l4,
        };
        let checked = load(path, standpoint)?;
        let mut problems = String::new();
        for problem in &checked.problems {
            // Writing to a String cannot fail.
            let _ = writeln!(problems, "{problem}");
        }
        let counted = count(&checked.problems);
        if checked.plan.is_none() {
            problems += &format!("{counted}\n");
        }
        let summary = checked.plan.map(|plan| {
            let resources = checked.resources;
            let extent = if self.all { Extent::All } else { Extent::Short };
            format!(
                "{resources} resources: {counted}\n{}\n{}",
                ignored(&checked.ignored),
                summary(&plan, extent)
            )
        });
        Ok(Report { problems, summary })
    }
}

/// Documents nobody reads, one a line.
fn ignored(documents: &[String]) -> String {
    if documents.is_empty() {
        return String::new();
    }
    let mut text = format!("{} ignored, which Weir does not read:\n", documents.len());
    for document in documents {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {document}");
    }
    text
}
