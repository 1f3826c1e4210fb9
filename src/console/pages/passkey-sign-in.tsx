/**
 * Signing in with a passkey on the sign-in page. Contract: "Authentication" (owner at the owner API).
 */
import type { ConsoleSettings } from '../../wire/owner/console.ts'
import type { BrowserKey } from '../access/device-key.ts'
import { Fault } from '../parts/parts.tsx'
import { rpIdHere, signInByPasskey } from '../access/passkey.ts'
import { useDeed } from '../access/session.ts'
import { WORDS } from '../words.ts'

const W = WORDS.passkeys

export function PasskeySignIn(props: {
  base: URL
  settings: ConsoleSettings & { aheadMs: number }
  /** What the key of this browser will be called. */
  name: () => string
  onKey: (key: BrowserKey) => void
}) {
  const { base, settings, name, onKey } = props
  const { busy, fault, run } = useDeed()
  const { issuer, aheadMs } = settings
  if (settings.device_keys === false || rpIdHere(settings) === undefined) return null
  return (
    <section class="panel">
      <h2>{W.signInTitle}</h2>
      <p class="quiet">{W.signInHint}</p>
      <Fault text={fault} />
      <button
        type="button"
        class="primary"
        disabled={busy}
        onClick={() => run(async () => onKey(await signInByPasskey({ base, issuer, aheadMs }, name())))}
      >
        {W.signIn}
      </button>
    </section>
  )
}
