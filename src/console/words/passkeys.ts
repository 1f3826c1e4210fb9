/**
 * What the page says about passkeys. Contract: "Owner API"; another language is another file of these
 * members.
 */
export const PASSKEYS = {
  title: 'Passkeys',
  lead: 'A passkey opens this page on any device that has it, and signs what you approve. Your device asks you each time.',
  none: 'You have no passkey.',
  elsewhere: 'Passkeys are added and used where the authority itself serves this page.',
  add: 'Add a passkey',
  addHint: 'Your browser asks where to keep it: on this device, on your phone, or on a security key.',
  make: 'Make it',
  name: 'What you call this passkey',
  added: (name: string) => `${name} is a passkey of yours now.`,
  since: 'Added',
  lastUsed: 'Last signed in',
  pin: 'As a resource pins it',
  pinHint:
    'The authority served the page that made it, so that it proves less than the key of usher owner on your own machine.',
  removeAsk: 'It stops working at once, and so does every browser that it signed in.',
  letIn: (time: string) => `Signed in by a passkey until ${time}`,
  ended: 'Ended',
  past: (count: number) => `Removed or ended (${count})`,
  signInTitle: 'I have a passkey',
  signIn: 'Use a passkey',
  signInHint: 'If you added a passkey to your keys before, it opens this page here for twelve hours.',
  signInEnded: 'The twelve hours of your passkey are over. Use it again to go on.',
  signedBy: 'Signed by',
  thisBrowser: 'the key of this browser',
  loginAlone: 'nobody: your login alone',
  passkey: (name: string) => `passkey ${name}`,
  notMade: 'No passkey was made: you said no, or your device did not answer in time. Try again.',
  notSigned:
    'Nothing was signed: you said no, or your device has no passkey of yours for this page. Try again.',
  isThere: 'This device has a passkey of yours for this page already.',
} as const
