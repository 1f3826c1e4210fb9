/** The way to her realm from the sign-in page. Contract: "Authentication" (owner: an OIDC access token). */
import type { ConsoleSettings } from '../../wire/owner/console.ts'
import { realmOf } from '../access/login.ts'
import { Fault } from '../parts/parts.tsx'
import { beginLogin } from '../access/realm.ts'
import { useDeed } from '../access/session.ts'
import { Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.signIn

export function RealmSignIn({ base, settings }: { base: URL; settings: ConsoleSettings }) {
  const { busy, fault, run } = useDeed()
  if (settings.realm === undefined) return null
  const realm = realmOf(settings)
  return (
    <section class="panel">
      <h2>{W.realm}</h2>
      <p class="quiet">
        <Shown text={W.realmHint(URL.parse(settings.realm.issuer)?.host ?? settings.realm.issuer)} />
      </p>
      <Fault text={fault} />
      {realm === undefined ? (
        // The content policy of the page names the realm, too, so the page must be loaded again.
        <Fault text={W.realmSilent} retry={() => location.reload()} />
      ) : (
        <button
          type="button"
          class="primary"
          disabled={busy}
          onClick={() => run(() => beginLogin(realm, base))}
        >
          {W.logIn}
        </button>
      )}
    </section>
  )
}
