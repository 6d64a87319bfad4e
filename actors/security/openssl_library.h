#pragma once

namespace troupe::actors {

/// Opens OpenSSL's libraries, which only runs over several hosts need, and so no other program that
/// is given away has to bring. Calls of OpenSSL before the first call of this end the process;
/// later calls do nothing. May be called from any thread. Throws Error{unavailable} that says what
/// to install.
void open_openssl();

}  // namespace troupe::actors
