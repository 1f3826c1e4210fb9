/**
 * Owns which credential signs an approval: the key of this browser, or one of her passkeys, which asks her
 * each time. Contract: "Owner API" (`/owner/pending/{family}/decision`).
 */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Passkey } from '../../wire/owner/owner-credentials.ts'
import { useSession } from '../access/session.ts'
import { shownText } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.passkeys
const OWN = ''

/**
 * The passkey that signs, and the choice to show if she has any. A login cannot sign by itself, so her first
 * passkey does unless she chooses otherwise.
 */
export function useSigner(): { passkey: Passkey | undefined; choice: ComponentChildren } {
  const { access, passkeys } = useSession()
  const [chosen, setChosen] = useState<string>()
  const signsByKey = access.proof.by === 'key'
  const id = chosen ?? (signsByKey ? OWN : (passkeys[0]?.id ?? OWN))
  const passkey = passkeys.find(one => one.id === id)
  if (passkeys.length === 0) return { passkey: undefined, choice: null }
  const choice = (
    <label class="signer">
      <span class="label">{W.signedBy}</span>
      <select
        name="signer"
        value={passkey?.id ?? OWN}
        onChange={event => setChosen(event.currentTarget.value)}
      >
        <option value={OWN}>{signsByKey ? W.thisBrowser : W.loginAlone}</option>
        {passkeys.map(one => (
          <option key={one.id} value={one.id}>
            {W.passkey(shownText(one.name))}
          </option>
        ))}
      </select>
    </label>
  )
  return { passkey, choice }
}
