"""Options, output and procedures that several commands share. No command lives here."""
