/**
 * What the page says of entries that it checks against the signed head of the ledger. Contract: "Events" (row
 * 5); another language is another file of these members.
 */
export const LEDGER_MARKS = {
  checked: 'checked',
  note: 'Checked in this browser: your authority’s log signed each entry beside which “checked” stands, as it is shown. “usher owner ledger export” and “usher verify ledger” find the same on another machine, and entries that are absent.',
  differs:
    'This entry is not what the log of your authority signed. Somebody changed it, or put it in the place of another. Keep what you see, and verify your ledger: usher owner ledger export, usher verify ledger.',
  foreign:
    'This entry is of another owner’s ledger, and not of the one that this browser has seen as yours. Keep what you see, and ask whoever runs your authority.',
  unchecked: 'The entries cannot be checked now, which says nothing about them.',
  faults: {
    unreadable: 'The head of your ledger is none that can be read, so no entry is checked.',
    signature: 'The signature of the head of your ledger does not hold, so no entry is checked.',
    key: 'The head of your ledger is signed with a key that this browser has not seen before, so no entry is checked. Ask whoever runs your authority whether the log has a new key.',
  },
  remember: 'It has: use the new keys from now on',
}
