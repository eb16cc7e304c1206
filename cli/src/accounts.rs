//! `accounts`: the accounts and users of a broker, as a part of nats-server's configuration.

use cronstream_server::RightsTable;

use crate::args;
use crate::error::Error;
use crate::session::Session;

pub(crate) fn accounts(session: &Session, wanted: &args::Accounts) -> Result<(), Error> {
    let table = match &wanted.rights {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| Error::File { path: path.clone(), source })?;
            RightsTable::parse(&text)?
        }
        None => RightsTable::embedded(),
    };
    let conf = table.render(session.connection().prefix.as_str())?;
    session.out.text(conf.trim_end())?;
    Ok(())
}
