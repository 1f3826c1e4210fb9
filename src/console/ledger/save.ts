/**
 * Owns files that the page gives its reader. Contract: "Owner API" (the ledger and the receipts are hers).
 */

/** Saves a text under that name, as the browser saves what is downloaded. */
export function saveAs(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 1_000)
}
