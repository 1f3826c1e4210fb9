/** Owns an authority whose owners may also log in at a real OpenID provider (test/support/realm.ts). */
import { startTestAuthority, type OwnerCall, type Reply, type TestAuthority } from './authority.ts'
import { AUDIENCE, startRealm, type RealmOptions, type TestRealm } from './realm.ts'

export interface RealmAuthority {
  realm: TestRealm
  authority: TestAuthority
  /** Sends a request of the owner API with a token, and without a signature. */
  bearing(token: string, call: OwnerCall): Promise<Reply>
  close(): Promise<void>
}

export interface RealmAuthorityOptions {
  owners?: string[]
  realm?: RealmOptions
  environment?: Record<string, string>
  /** The owners' identities at the realm, by owner; if left out, none is bound. */
  logins?: Record<string, string>
}

/** The settings of an authority that takes both kinds of credential. */
export function realmEnvironment(issuer: string): Record<string, string> {
  return {
    UMA_AS_OWNER_AUTH: 'device-key,oidc',
    UMA_AS_OIDC_ISSUER: issuer,
    UMA_AS_OIDC_AUDIENCE: AUDIENCE,
    UMA_DEV_LOOPBACK: 'true',
  }
}

/** Starts both. */
export async function startRealmAuthority(options: RealmAuthorityOptions = {}): Promise<RealmAuthority> {
  const realm = await startRealm(options.realm)
  const { logins = {}, owners, environment } = options
  const authority = await startTestAuthority({
    ...(owners === undefined ? {} : { owners }),
    environment: { ...realmEnvironment(realm.issuer), ...environment },
    provision: document => ({
      owners: document.owners.map(owner => {
        const subject = logins[owner.owner]
        const bound = subject === undefined ? [] : [{ name: 'realm', issuer: realm.issuer, subject }]
        return { ...owner, logins: bound }
      }),
    }),
  })
  return {
    realm,
    authority,
    bearing: (token, { headers, ...call }) =>
      authority.call(authority.alice, {
        ...call,
        headers: { authorization: `Bearer ${token}`, ...headers },
        sign: false,
      }),
    close: async () => {
      await authority.close()
      await realm.close()
    },
  }
}
